"""Airflow: one mapped task per shard, then the run that collects. Shards that are tried again go on where they were."""

from datetime import datetime, timedelta

from airflow.sdk import DAG
from airflow.providers.standard.operators.bash import BashOperator

SHARDS = 4
RUN = "stride-pipe run pipelines/sweep/sweep.yaml --lock-timeout 10m --log-format json"

with DAG(
    dag_id="energy_sweep",
    schedule=None,
    start_date=datetime(2026, 11, 1),
    catchup=False,
    max_active_runs=1,
) as dag:
    shards = BashOperator.partial(
        task_id="shard",
        cwd="/srv/stride-pipe",
        retries=2,
        retry_delay=timedelta(minutes=10),
    ).expand(bash_command=[f"{RUN} --shard {index}/{SHARDS}" for index in range(SHARDS)])
    collect = BashOperator(
        task_id="collect",
        cwd="/srv/stride-pipe",
        bash_command=RUN,
        retries=2,
        retry_delay=timedelta(minutes=10),
    )
    shards >> collect
