get_property(rooms GLOBAL PROPERTY TBCCL_ROOMS)
