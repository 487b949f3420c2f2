"""Airflow: one task per day, safe to retry and to backfill (`airflow backfill create --dag-id stride_score …`)."""

from datetime import datetime, timedelta

from airflow.sdk import DAG
from airflow.providers.standard.operators.bash import BashOperator

with DAG(
    dag_id="stride_score",
    schedule="15 2 * * *",
    start_date=datetime(2026, 11, 1),
    catchup=False,
    max_active_runs=1,
) as dag:
    score = BashOperator(
        task_id="score",
        cwd="/srv/stride-pipe",
        bash_command=(
            "stride-pipe run pipelines/scoring/score.yaml"
            " --set date={{ ds }} --lock-timeout 10m --log-format json"
        ),
        # Every failure is tried again, 75 (another job holds the lock) too: a day that is skipped would stay unscored.
        retries=2,
        retry_delay=timedelta(minutes=10),
    )
