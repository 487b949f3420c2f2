//! Arrow streams on pipes.

use super::{GP, published, rows, scores};
use crate::python;
use crate::sandbox::{Ran, Sandbox};
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use std::io::Write as _;
use std::process::{Command, Stdio};
use stride_pipe::store::{open_batches, write_parquet};

fn stream(whole: &RecordBatch, rows: usize) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &whole.schema()).unwrap();
    for first in (0..whole.num_rows()).step_by(rows) {
        writer.write(&whole.slice(first, rows.min(whole.num_rows() - first))).unwrap();
    }
    writer.into_inner().unwrap()
}

fn score(sandbox: &Sandbox, input: Vec<u8>) -> (Ran, Vec<u8>) {
    let arguments = "score --model models/m --input - --output - --key id --keep other --quiet";
    let mut child = sandbox
        .command()
        .args(arguments.split(' '))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A program that has said no does not read on.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    (Ran::from(&output), output.stdout)
}

#[test]
fn batches_of_any_size_give_the_same_bits() {
    let sandbox = published(GP);
    rows(&sandbox.path("whole.parquet"), 0..500);
    sandbox.run("score --model models/m --input whole.parquet --output file.parquet --key id --keep other").succeeded();
    let expected = scores(&sandbox.path("file.parquet"));
    let (schema, batches) = open_batches(&sandbox.path("whole.parquet")).unwrap();
    let batches: Vec<RecordBatch> = batches.map(Result::unwrap).collect();
    let whole = concat_batches(&schema, &batches).unwrap();
    for size in [1, 7, 96, 97, 500] {
        let (ran, bytes) = score(&sandbox, stream(&whole, size));
        ran.succeeded();
        let reader = StreamReader::try_new(bytes.as_slice(), None).unwrap();
        let schema = reader.schema();
        let back: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
        write_parquet(&sandbox.path("back.parquet"), &schema, &[], &back).unwrap();
        assert_eq!(scores(&sandbox.path("back.parquet")), expected, "batches of {size}");
    }
    // No rows: a stream with the columns.
    let (ran, bytes) = score(&sandbox, stream(&whole.slice(0, 0), 1));
    ran.succeeded();
    let reader = StreamReader::try_new(bytes.as_slice(), None).unwrap();
    assert_eq!(reader.schema().field(0).name(), "id");
    assert_eq!(reader.count(), 0);

    let whole_stream = stream(&whole, 96);
    for bad in [Vec::new(), b"PAR1 is something else".to_vec(), whole_stream[..whole_stream.len() / 2].to_vec()] {
        let (ran, _) = score(&sandbox, bad);
        assert_eq!(ran.code, 65, "{}", ran.stderr);
        assert!(ran.stderr.contains("standard input"), "{}", ran.stderr);
    }
}

#[test]
fn pyarrow_and_a_shell_pipe() {
    let sandbox = published(GP);
    rows(&sandbox.path("whole.parquet"), 0..300);
    sandbox.run("score --model models/m --input whole.parquet --output file.parquet --key id").succeeded();
    sandbox.write("send.py", "import sys, pyarrow as pa, pyarrow.parquet as pq\ntable = pq.read_table('whole.parquet')\n\
        with pa.ipc.new_stream(sys.stdout.buffer, table.schema) as sink:\n    sink.write_table(table, max_chunksize=50)\n");
    sandbox.write(
        "receive.py",
        "import sys, pyarrow as pa, pyarrow.parquet as pq\n\
        pq.write_table(pa.ipc.open_stream(sys.stdin.buffer).read_all(), 'piped.parquet')\n",
    );
    let python = python::programs().join("python").display().to_string();
    let program = crate::sandbox::stride_pipe().get_program().to_string_lossy().into_owned();
    let pipe = format!(
        "set -e; '{python}' send.py | '{program}' score --model models/m --input - --output - --key id | '{python}' receive.py"
    );
    python::succeed(Command::new("bash").args(["-o", "pipefail", "-c", &pipe]).current_dir(sandbox.path("")));
    assert_eq!(scores(&sandbox.path("piped.parquet")), scores(&sandbox.path("file.parquet")));
}
