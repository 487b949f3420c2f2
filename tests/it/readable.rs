//! Files and surroundings that are unusual and no reason to fail, or a reason that is named as what it is.

use crate::python;
use crate::sandbox::{Ran, SMALL, Sandbox};
use arrow::array::{Array as _, ArrayRef, AsArray as _, FixedSizeBinaryArray, Float64Array, Int64Array};
use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use stride_pipe::store::{open_batches, read_predictions, write_columns};

/// Writes `bad.parquet` with two columns by a line of Python.
fn by_python(sandbox: &Sandbox, script: &str) {
    sandbox.write("make.py", &format!("import pyarrow as pa, pyarrow.parquet as pq\nt = pa.table({{'a': [float(i) for i in range(40)], 'b': [float(i * i % 7) for i in range(40)], 'y': [float(i % 5) for i in range(40)]}})\n{script}\n"));
    let made = Command::new(python::programs().join("python")).arg("make.py").current_dir(sandbox.path("")).output();
    let made = made.unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    sandbox.write("bad.yaml", &SMALL.replace("path: rows.parquet, key: id,", "path: bad.parquet,"));
}

#[test]
fn a_codec_or_a_cipher_is_named_instead_of_damage() {
    let sandbox = Sandbox::new();
    let cipher = "\
import base64
import pyarrow.parquet.encryption as pe
class Kms(pe.KmsClient):
    def __init__(self, config): pe.KmsClient.__init__(self)
    def wrap_key(self, key, name): return base64.b64encode(key)
    def unwrap_key(self, key, name): return base64.b64decode(key)
factory = pe.CryptoFactory(Kms)
config = pe.EncryptionConfiguration(footer_key='f', column_keys={'c': ['a', 'b', 'y']}, plaintext_footer=False)
properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), config)
with pq.ParquetWriter('bad.parquet', t.schema, encryption_properties=properties) as w: w.write_table(t)
";
    for (script, said) in [
        (
            "pq.write_table(t, 'bad.parquet', compression='brotli')".to_owned(),
            "compressed with Brotli, which is not read",
        ),
        (cipher.to_owned(), "an encrypted Parquet file; decrypt it first"),
        // Names and sizes can be read, the columns cannot.
        (
            cipher.replace("plaintext_footer=False", "plaintext_footer=True"),
            "an encrypted Parquet file; decrypt it first",
        ),
    ] {
        by_python(&sandbox, &script);
        for command in ["run bad.yaml --quiet", "validate bad.yaml --data"] {
            let ran = sandbox.run(command);
            assert_eq!(ran.code, 65, "{}", ran.stderr);
            assert!(ran.stderr.contains(said) && !ran.stderr.contains("damaged"), "{}", ran.stderr);
        }
    }
}

/// Whatever the limit, a file is not called damaged because it cannot be opened.
#[test]
fn too_few_open_files_are_named_instead_of_damage() {
    let sandbox = Sandbox::new();
    let mut named = 0;
    for limit in 5..24 {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={limit}")).arg(sandbox.command().get_program());
        command.args(["run", "small.yaml", "--quiet", "--force", "--threads", "1"]).current_dir(sandbox.path(""));
        let ran = Ran::from(&command.output().unwrap());
        assert!(!ran.stderr.contains("damaged"), "{limit}: {}", ran.stderr);
        named += u32::from(ran.stderr.contains("the limit of open files is too low"));
    }
    assert!(named > 0);
}

#[test]
fn zeros_in_front_of_a_key_stay() {
    let sandbox = Sandbox::new();
    sandbox.write("ids.csv", "id,month,y\n007,01,1\n7,02,2\n010,03,3\n");
    let text = |column: &ArrayRef| column.as_string::<i32>().iter().flatten().map(str::to_owned).collect::<Vec<_>>();
    for (options, key) in [("--key id", "id"), ("--key code --columns id=code", "code")] {
        sandbox.run(&format!("import ids.csv -o ids.parquet {options}")).succeeded();
        let batch = open_batches(&sandbox.path("ids.parquet")).unwrap().1.next().unwrap().unwrap();
        assert_eq!(text(batch.column_by_name(key).unwrap()), ["007", "7", "010"]);
        // Anything else is a number.
        assert!(batch.column_by_name("month").unwrap().data_type().is_integer());
    }
    // What is called as a key is one, also when nobody says so.
    sandbox.run("import ids.csv -o ids.parquet").succeeded();
    let batch = open_batches(&sandbox.path("ids.parquet")).unwrap().1.next().unwrap().unwrap();
    assert_eq!(text(batch.column_by_name("id").unwrap()), ["007", "7", "010"]);
    assert!(batch.column_by_name("month").unwrap().data_type().is_integer());
    sandbox.write("ids.csv", "id,y\n70,1\n0,2\n-3,3\n");
    sandbox.run("import ids.csv -o ids.parquet --key id").succeeded();
    let batch = open_batches(&sandbox.path("ids.parquet")).unwrap().1.next().unwrap().unwrap();
    assert!(batch.column_by_name("id").unwrap().data_type().is_integer());
}

#[test]
fn uuids_identify_rows() {
    let sandbox = Sandbox::new();
    let ids: Vec<[u8; 16]> =
        (0..40_u8).map(|row| std::array::from_fn(|byte| row.wrapping_mul(17) ^ byte as u8)).collect();
    let ids: ArrayRef = Arc::new(FixedSizeBinaryArray::try_from_iter(ids.into_iter()).unwrap());
    let numbers = |step: usize| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values((0..40).map(|row| ((row * step) % 17) as f64 / 3.0)))
    };
    let columns = vec![("id", ids), ("a", numbers(3)), ("b", numbers(5)), ("y", numbers(7))];
    write_columns(&sandbox.path("uuid.parquet"), columns).unwrap();
    sandbox.write("uuid.yaml", &SMALL.replace("rows.parquet", "uuid.parquet"));
    sandbox.run("run uuid.yaml --quiet").succeeded();
    let block = read_predictions(&sandbox.table_files("predictions")[0]).unwrap();
    let mut keys = block.key;
    keys.sort();
    assert!(keys.contains(&"00010203-0405-0607-0809-0a0b0c0d0e0f".to_owned()), "{keys:?}");
    keys.dedup();
    assert_eq!(keys.len(), 40);
}

#[test]
fn whole_numbers_in_one_file_and_fractions_in_another_are_numbers() {
    let sandbox = Sandbox::new();
    let whole =
        |from: i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values((from..from + 20).map(|row| row * 7 % 11))) };
    let broken = |from: i64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values((from..from + 20).map(|row| row as f64 / 3.0)))
    };
    let ids = |from: i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values(from..from + 20)) };
    let first = vec![("id", ids(0)), ("a", whole(0)), ("b", broken(0)), ("y", whole(3))];
    let second = vec![("id", ids(20)), ("a", broken(20)), ("b", whole(20)), ("y", broken(4))];
    write_columns(&sandbox.path("parts/1.parquet"), first).unwrap();
    write_columns(&sandbox.path("parts/2.parquet"), second.clone()).unwrap();
    sandbox.write("parts.yaml", &SMALL.replace("rows.parquet", "parts/"));
    sandbox.run("run parts.yaml --quiet").succeeded();
    assert_eq!(read_predictions(&sandbox.table_files("predictions")[0]).unwrap().rows(), 40);
    // A key is not a number: 1 and 1.0 would be two.
    let mut other = second;
    other[0] = ("id", broken(20));
    write_columns(&sandbox.path("parts/2.parquet"), other).unwrap();
    assert_eq!(sandbox.run("run parts.yaml --quiet").code, 65);
}

/// A log on a full disk, or one that nobody reads any more, does not end the work.
#[test]
fn a_log_that_cannot_be_written_does_not_end_a_run() {
    let sandbox = Sandbox::new();
    for format in ["text", "json"] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = sandbox.command();
        command.args(["run", "small.yaml", "--force", "--log-format", format]);
        let ran = Ran::from(&command.stderr(full).output().unwrap()).succeeded();
        assert!(ran.stdout.contains("13 task(s) done"), "{}", ran.stdout);
        let mut command = sandbox.command();
        command.args(["run", "small.yaml", "--force", "--log-format", format]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stderr.take());
        let ran = Ran::from(&child.wait_with_output().unwrap()).succeeded();
        assert!(ran.stdout.contains("13 task(s) done"), "{}", ran.stdout);
    }
}

/// `OpenBLAS` would ask for memory again and again, for ever.
#[test]
fn too_little_address_space_is_refused_at_once() {
    let sandbox = Sandbox::new();
    for megabytes in [300, 500] {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "60", "prlimit", &format!("--as={}", megabytes * 1_000_000)]);
        command.arg(sandbox.command().get_program()).args(["run", "small.yaml", "--threads", "2"]);
        let ran = Ran::from(&command.current_dir(sandbox.path("")).output().unwrap());
        assert_eq!(ran.code, 2, "{megabytes}: {}", ran.stderr);
        assert!(ran.stderr.contains("the address space is limited to"), "{megabytes}: {}", ran.stderr);
        assert!(!sandbox.path("results").exists());
    }
}
