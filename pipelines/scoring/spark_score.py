"""Scores a Parquet directory with Spark: every task passes its rows through `stride-pipe score` as an Arrow stream.

    python pipelines/scoring/spark_score.py --model models/energy --input inbox --output scores/spark --key row_id

The scores of a row are the same bits as without Spark, however the rows are cut into tasks and batches. Model and program
must be at the same place on every machine.
"""

import argparse
import subprocess
import threading
from typing import Iterator


def through(command: list[str], batches: Iterator) -> Iterator:
    """Record batches into the program, record batches out of it, as they come."""
    import pyarrow as pa

    batches = iter(batches)
    first = next(batches, None)
    if first is None:
        return
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said, failed = [], []

    def send() -> None:
        try:
            with pa.ipc.new_stream(program.stdin, first.schema) as stream:
                stream.write_batch(first)
                for batch in batches:
                    stream.write_batch(batch)
        except BrokenPipeError:
            pass  # the program has ended, and says why
        except BaseException as error:
            failed.append(error)
            program.kill()
        finally:
            try:
                program.stdin.close()
            except BrokenPipeError:
                pass

    threads = [threading.Thread(target=send), threading.Thread(target=lambda: said.append(program.stderr.read()))]
    for thread in threads:
        thread.start()
    try:
        yield from pa.ipc.open_stream(program.stdout)
    except pa.ArrowInvalid:
        pass  # a stream that breaks off: the exit code tells
    finally:
        program.stdout.close()
        code = program.wait()
        for thread in threads:
            thread.join()
    if failed:
        raise failed[0]
    if code != 0:
        raise RuntimeError(f"stride-pipe ended with {code}: {b''.join(said).decode(errors='replace')}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--program", default="stride-pipe")
    parser.add_argument("--master", help="for instance local-cluster[2,1,1024]; as spark-submit says unless given")
    args = parser.parse_args()

    from pyspark.sql import SparkSession
    from pyspark.sql.types import DoubleType, StructField, StructType

    builder = SparkSession.builder.appName("stride-score")
    spark = (builder.master(args.master) if args.master else builder).getOrCreate()
    rows = spark.read.parquet(args.input)
    numbers = ["y_mean", "y_std", "f_std", "noise_std"]
    schema = StructType([rows.schema[args.key]] + [StructField(name, DoubleType()) for name in numbers])
    # Tasks run side by side, one per core: one thread each.
    command = [args.program, "score", "--model", args.model, "--input", "-", "--output", "-"]
    command += ["--key", args.key, "--threads", "1", "--quiet"]
    scores = rows.mapInArrow(lambda batches: through(command, batches), schema)
    scores.write.mode("overwrite").parquet(args.output)
    spark.stop()


if __name__ == "__main__":
    main()
