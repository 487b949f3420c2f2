//! `stride-pipe views`.

use super::exit::{self, Failure};
use super::{print, print_raw};
use crate::store::{ResultsDir, StoreError, live_views};
use clap::Args as ClapArgs;
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Arguments of `views`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The results directory
    #[arg(long, value_name = "DIR", default_value = "results")]
    results: PathBuf,
    /// Put the views into this database file (`DuckDB`), which is made if it is not there; default: print them
    #[arg(long, value_name = "FILE")]
    database: Option<PathBuf>,
    /// The `duckdb` program, or a Python that has the module `duckdb`; default: whichever is on the search path
    #[arg(long, value_name = "PROGRAM", requires = "database")]
    duckdb: Option<PathBuf>,
}

pub fn execute(args: &Args) -> Result<(), Failure> {
    let results = ResultsDir::new(&args.results);
    results.refresh()?;
    if !results.root().is_dir() {
        let what = "there is no such directory";
        return Err(StoreError::missing(&args.results, what, "name a results directory with --results DIR").into());
    }
    let views = live_views(&results)?;
    let Some(database) = &args.database else { return print_raw(&views) };
    let reader = find(args.duckdb.as_deref())?;
    if !database.exists() {
        // Files of the newest version cannot be opened by others. DuckDB before 1.2 does not know the option, and needs
        // none.
        let path = database.display().to_string().replace('\'', "''");
        let _ = reader.run(Path::new(":memory:"), &format!("ATTACH '{path}' AS made (STORAGE_VERSION 'v1.0.0');"));
    }
    // All views or none.
    reader.run(database, &format!("BEGIN;\n{views}COMMIT;\n")).map_err(|said| {
        let advice = "is it a DuckDB database, and does no other program have it open for writing?";
        let text = format!("stride-pipe: {}: {}\n{advice}", database.display(), said.trim_end());
        Failure::new(exit::CANNOT_WRITE, text)
    })?;
    print(&format!("{}: views over {}\n", database.display(), args.results.display()))
}

/// What can open a database.
struct Reader {
    program: OsString,
    is_python: bool,
}

/// Opens the database of its first argument and performs what it reads.
const SCRIPT: &str = "\
import sys, duckdb
try:
    with duckdb.connect(sys.argv[1]) as db:
        db.execute(sys.stdin.read())
except duckdb.Error as error:
    sys.exit(str(error))
";

impl Reader {
    /// The program, if it is there and knows `DuckDB`.
    fn new(program: &OsStr) -> Option<Self> {
        let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let reader = Self { program: program.to_owned(), is_python: name.to_lowercase().starts_with("python") };
        reader.run(Path::new(":memory:"), "SELECT 1;").is_ok().then_some(reader)
    }

    /// Performs statements; else what it said.
    fn run(&self, database: &Path, statements: &str) -> Result<(), String> {
        let mut command = Command::new(&self.program);
        if self.is_python {
            command.args(["-c", SCRIPT]);
        } else {
            // A user's own settings must not matter.
            command.args(["-batch", "-bail", "-init", "/dev/null"]);
        }
        let text = |error: std::io::Error| error.to_string();
        let command = command.arg(database).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(text)?;
        if let Some(mut input) = child.stdin.take() {
            // One that cannot open the database ends before it has read anything.
            match input.write_all(statements.as_bytes()) {
                Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(text(error)),
                _ => {}
            }
        }
        let output = child.wait_with_output().map_err(text)?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(()) } else { Err(said.into_owned()) }
    }
}

fn find(given: Option<&Path>) -> Result<Reader, Failure> {
    let advice = "install DuckDB (https://duckdb.org, or `pip install duckdb`), name a program with --duckdb PROGRAM, or leave \
        --database out and give what is printed to your own DuckDB";
    let usage = |problem: String| Failure::new(exit::MISSING_INPUT, format!("stride-pipe: {problem}\n{advice}"));
    match given {
        Some(program) => Reader::new(program.as_os_str()).ok_or_else(|| {
            usage(format!("{} is neither a duckdb program nor a Python that has DuckDB", program.display()))
        }),
        None => ["duckdb", "python3", "python"].iter().find_map(|program| Reader::new(OsStr::new(program))).ok_or_else(
            || usage("neither the program duckdb nor a Python that has it is on the search path".to_owned()),
        ),
    }
}
