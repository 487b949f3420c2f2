//! Arrow streams on pipes.

use super::{GP, Scores, published, rows, scores};
use crate::python;
use crate::sandbox::{Ran, Sandbox};
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::ipc::CompressionType;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use stride_pipe::store::{open_batches, write_parquet};

/// All rows of a file.
fn whole(path: &Path) -> RecordBatch {
    let (schema, batches) = open_batches(path).unwrap();
    let batches: Vec<RecordBatch> = batches.map(Result::unwrap).collect();
    concat_batches(&schema, &batches).unwrap()
}

fn stream(whole: &RecordBatch, rows: usize) -> Vec<u8> {
    let (bytes, _) = cut(whole, rows, None);
    bytes
}

/// A stream, and where its schema and each of its batches end.
fn cut(whole: &RecordBatch, rows: usize, compression: Option<CompressionType>) -> (Vec<u8>, Vec<usize>) {
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &whole.schema(), options).unwrap();
    let mut ends = vec![writer.get_ref().len()];
    for first in (0..whole.num_rows()).step_by(rows) {
        writer.write(&whole.slice(first, rows.min(whole.num_rows() - first))).unwrap();
        ends.push(writer.get_ref().len());
    }
    (writer.into_inner().unwrap(), ends)
}

fn score(sandbox: &Sandbox, input: Vec<u8>) -> (Ran, Vec<u8>) {
    score_to(sandbox, "-", input)
}

fn score_to(sandbox: &Sandbox, output: &str, input: Vec<u8>) -> (Ran, Vec<u8>) {
    let arguments = format!("score --model models/m --input - --output {output} --key id --keep other --quiet");
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

/// The scores in a stream.
fn received(sandbox: &Sandbox, bytes: &[u8]) -> Scores {
    let reader = StreamReader::try_new(bytes, None).unwrap();
    let schema = reader.schema();
    let back: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    write_parquet(&sandbox.path("back.parquet"), &schema, &[], &back).unwrap();
    scores(&sandbox.path("back.parquet"))
}

#[test]
fn batches_of_any_size_give_the_same_bits() {
    let sandbox = published(GP);
    rows(&sandbox.path("whole.parquet"), 0..500);
    sandbox.run("score --model models/m --input whole.parquet --output file.parquet --key id --keep other").succeeded();
    let expected = scores(&sandbox.path("file.parquet"));
    let whole = whole(&sandbox.path("whole.parquet"));
    for size in [1, 7, 96, 97, 500] {
        let (ran, bytes) = score(&sandbox, stream(&whole, size));
        ran.succeeded();
        assert_eq!(received(&sandbox, &bytes), expected, "batches of {size}");
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

/// What Arrow's own readers take for a whole stream: it ends between two batches, without the end marker.
#[test]
fn a_stream_without_its_end_marker_is_refused_and_nothing_is_published() {
    let sandbox = published(GP);
    rows(&sandbox.path("whole.parquet"), 0..300);
    let (bytes, ends) = cut(&whole(&sandbox.path("whole.parquet")), 100, None);
    let marker = bytes[bytes.len() - 8..].to_vec();
    fs::write(sandbox.path("out.parquet"), "earlier").unwrap();
    for end in ends {
        // Also in the middle of the marker.
        for end in [end, end + 3, end + 4, end + 7] {
            assert!(end < bytes.len());
            let (ran, _) = score_to(&sandbox, "out.parquet", bytes[..end].to_vec());
            assert_eq!(ran.code, 65, "cut at {end}: {}", ran.stderr);
            assert!(ran.stderr.contains("standard input: the Arrow stream breaks off"), "{}", ran.stderr);
            assert_eq!(fs::read(sandbox.path("out.parquet")).unwrap(), b"earlier", "cut at {end}");
            assert!(!sandbox.files("").iter().any(|name| name.contains(".tmp")), "cut at {end}");
        }
        let (ran, scored) = score(&sandbox, bytes[..end].to_vec());
        assert_eq!(ran.code, 65, "cut at {end}: {}", ran.stderr);
        assert!(ran.stderr.contains("its end marker is missing"), "{}", ran.stderr);
        assert!(!scored.ends_with(&marker), "what comes out has no end either");
    }
    let (ran, scored) = score(&sandbox, bytes);
    ran.succeeded();
    assert!(scored.ends_with(&marker));
}

#[test]
fn compressed_streams_are_read_and_lengths_beyond_belief_refused() {
    let sandbox = published(GP);
    rows(&sandbox.path("whole.parquet"), 0..500);
    sandbox.run("score --model models/m --input whole.parquet --output file.parquet --key id --quiet").succeeded();
    let expected = scores(&sandbox.path("file.parquet"));
    let whole = whole(&sandbox.path("whole.parquet"));
    for kind in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let (mut bytes, _) = cut(&whole, 250, Some(kind));
        assert!(bytes.len() < stream(&whole, 250).len(), "{kind:?} makes it shorter");
        let (ran, scored) = score(&sandbox, bytes.clone());
        ran.succeeded();
        assert_eq!(received(&sandbox, &scored), expected, "{kind:?}");
        // Every compressed buffer begins with the length it will have.
        let length = (250_i64 * 8).to_le_bytes();
        let place = bytes.windows(8).position(|bytes| bytes == length).unwrap();
        bytes[place..place + 8].copy_from_slice(&(i64::MAX - 7).to_le_bytes());
        let (ran, _) = score(&sandbox, bytes);
        assert_eq!(ran.code, 65, "{kind:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("a compressed buffer claims to hold"), "{kind:?}: {}", ran.stderr);
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
