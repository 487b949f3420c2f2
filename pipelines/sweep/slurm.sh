#!/bin/bash
#SBATCH --job-name=energy-sweep
#SBATCH --array=0-3
#SBATCH --cpus-per-task=2
#SBATCH --mem=2G
#SBATCH --requeue
# From the directory that has `pipelines`, which all nodes share:
#   job=$(sbatch --parsable pipelines/sweep/slurm.sh)
#   sbatch --dependency=afterok:$job --wrap 'stride-pipe run pipelines/sweep/sweep.yaml'
# A job that was stopped goes on where it was when it is started again.
exec stride-pipe run pipelines/sweep/sweep.yaml \
  --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" --threads "${SLURM_CPUS_PER_TASK:-1}" --log-format json
