# sh run_mpi.sh RANKS PROGRAM MPI-INCLUDE-DIRECTORIES
#
# Runs PROGRAM under the launcher of the MPI it was compiled with: a machine may have two.
ranks=$1 program=$2
case $3 in
  *openmpi*) names="mpirun.openmpi mpirun mpiexec" ;;
  *mpich*) names="mpirun.mpich mpiexec.hydra mpirun mpiexec" ;;
  *) names="mpirun mpiexec" ;;
esac

for name in $names; do
  launcher=$(command -v "$name") && break
done
if [ -z "$launcher" ]; then
  echo "SKIPPED: the MPI launcher is not installed (tried: $names)"
  exit 77
fi

options=
case $("$launcher" --version 2>&1) in
  *"Open MPI"* | *OpenRTE* | *PRRTE*)
    options=--oversubscribe
    [ "$(id -u)" = 0 ] && options="$options --allow-run-as-root"
    ;;
esac
# shellcheck disable=SC2086 # options are words
exec "$launcher" $options -n "$ranks" "$program" < /dev/null
