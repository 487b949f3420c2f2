//! The example for Spark, in separate worker processes.

use super::{GP, Scores, published, rows, scores};
use crate::python;
use std::path::Path;
use std::process::Command;

#[test]
fn spark_gives_the_same_bits_by_key() {
    let sandbox = published(GP);
    for part in 0..4 {
        rows(&sandbox.path(format!("inbox/d={part}/rows.parquet")), 1000 * part..1000 * part + 700);
    }
    sandbox.run("score --model models/m --input inbox --output one.parquet --key id --quiet").succeeded();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("pipelines/scoring/spark_score.py");
    let python = python::spark_programs().join("python");
    let program = crate::sandbox::stride_pipe().get_program().to_owned();
    let mut command = Command::new(&python);
    command.arg(example).current_dir(sandbox.path(""));
    command.arg("--model").arg(sandbox.path("models/m")).arg("--program").arg(program);
    command.args(["--input", "inbox", "--output", "spark", "--key", "id", "--master", "local-cluster[2,1,1024]"]);
    // Workers find the same Python, and nobody's network is needed.
    command.env("PYSPARK_PYTHON", &python).env("SPARK_LOCAL_IP", "127.0.0.1").env("SPARK_LOCAL_HOSTNAME", "localhost");
    command.env_remove("SPARK_HOME");
    python::succeed(&mut command);
    let mut by_spark = Scores::new();
    for file in sandbox.files("spark").iter().filter(|name| name.ends_with(".parquet")) {
        by_spark.extend(scores(&sandbox.path("spark").join(file)));
    }
    let alone = scores(&sandbox.path("one.parquet"));
    assert_eq!(by_spark.len(), 2800);
    assert_eq!(by_spark, alone);
}
