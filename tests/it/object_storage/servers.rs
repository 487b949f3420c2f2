//! Real stores on this machine: moto and s3s-fs, which speak S3, and Azurite, which speaks Azure; and moto behind a script that
//! speaks to it as one does to Google. Each is installed once, under `~/.cache/stride-pipe`, and listens on 127.0.0.1 only.

use crate::python;
use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The store under test.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Moto,
    S3sFs,
    Azurite,
    Google,
}

pub const KEY: &str = "TESTKEYID";
pub const SECRET: &str = "aSecretThatMustNotBeSeen";

const S3S_FS: &str = "0.14.1";
const AZURITE: &str = "3.35.0";

pub struct Server {
    pub kind: Kind,
    pub port: u16,
    child: Child,
    directory: TempDir,
}

impl Server {
    /// Starts a store with an empty bucket called `bucket`.
    pub fn start(kind: Kind) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let port = free_port();
        let mut command = match kind {
            Kind::Moto => {
                let mut command = Command::new(python::storage_programs().join("moto_server"));
                command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
                command
            }
            Kind::S3sFs => {
                let mut command = Command::new(s3s_fs());
                command.args(["--host", "127.0.0.1", "--port", &port.to_string()]);
                command.args(["--access-key", KEY, "--secret-key", SECRET]).arg(directory.path());
                command
            }
            Kind::Google => {
                let mut command = Command::new(python::storage_programs().join("python"));
                command.arg(script("google.py")).arg(port.to_string());
                command
            }
            Kind::Azurite => {
                let mut command = Command::new("node");
                command.arg(azurite()).args(["--silent", "--skipApiVersionCheck", "--disableTelemetry"]);
                command.args(["--inMemoryPersistence", "--blobHost", "127.0.0.1", "--blobPort", &port.to_string()]);
                command
            }
        };
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let server = Self { kind, port, child: child.unwrap(), directory };
        wait_for(|| TcpStream::connect(("127.0.0.1", port)).is_ok());
        server.client("bucket\n");
        server
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn scheme(&self) -> &'static str {
        match self.kind {
            Kind::Moto | Kind::S3sFs => "s3",
            Kind::Azurite => "az",
            Kind::Google => "gs",
        }
    }

    /// The environment in which the store is found, at this port of 127.0.0.1.
    pub fn environment(&self, port: u16) -> Vec<(&'static str, String)> {
        let endpoint = format!("http://127.0.0.1:{port}");
        let key = serde_json::json!({
            "private_key": SECRET, "private_key_id": KEY, "client_email": "job@test", "gcs_base_url": endpoint, "disable_oauth": true,
        });
        let key = key.to_string();
        let pairs: &[(&str, &str)] = match self.kind {
            Kind::Azurite => &[("AZURE_STORAGE_USE_EMULATOR", "true"), ("AZURITE_BLOB_STORAGE_URL", &endpoint)],
            Kind::Google => &[("GOOGLE_SERVICE_ACCOUNT_KEY", &key), ("GOOGLE_ALLOW_HTTP", "true")],
            Kind::Moto | Kind::S3sFs => &[
                ("AWS_ACCESS_KEY_ID", KEY),
                ("AWS_SECRET_ACCESS_KEY", SECRET),
                ("AWS_REGION", "us-east-1"),
                ("AWS_ALLOW_HTTP", "true"),
                ("AWS_ENDPOINT_URL", &endpoint),
            ],
        };
        pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
    }

    /// What a client of others does and says.
    pub fn client(&self, commands: &str) -> Vec<String> {
        let mut command = Command::new(python::storage_programs().join("python"));
        command.arg(script("client.py")).args([self.scheme(), &self.endpoint()]).envs(self.environment(self.port));
        // What Google has is in moto.
        let keys = [("AWS_ACCESS_KEY_ID", KEY), ("AWS_SECRET_ACCESS_KEY", SECRET), ("AWS_REGION", "us-east-1")];
        command.envs(keys);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(commands.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{commands}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    pub fn put(&self, key: &str, file: &Path) {
        self.client(&format!("put {key} {}\n", file.display()));
    }

    /// The bytes of an object.
    pub fn get(&self, key: &str) -> Vec<u8> {
        let file = self.directory.path().with_extension("got");
        self.client(&format!("get {key} {}\n", file.display()));
        fs::read(file).unwrap()
    }

    /// Names of all objects, sorted.
    pub fn list(&self) -> Vec<String> {
        let mut names = self.client("list\n");
        names.sort();
        names
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/object_storage").join(name)
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// Waits until something holds; a minute at most.
#[track_caller]
pub fn wait_for(holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "it did not come to be");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The program s3s-fs, built once.
fn s3s_fs() -> PathBuf {
    let root = python::install(&format!("s3s-fs-{S3S_FS}"), |directory| {
        let target = directory.join("target");
        let mut command = Command::new("cargo");
        command.args([
            "install",
            "s3s-fs",
            "--version",
            S3S_FS,
            "--features",
            "binary",
            "--locked",
            "--debug",
            "--root",
        ]);
        command.arg(directory).env("CARGO_TARGET_DIR", &target).env_remove("RUSTFLAGS").current_dir(directory);
        python::succeed(&mut command);
        fs::remove_dir_all(target).unwrap();
    });
    root.join("bin/s3s-fs")
}

/// The script of Azurite, installed once.
fn azurite() -> PathBuf {
    let root = python::install(&format!("azurite-{AZURITE}"), |directory| {
        let mut command = Command::new("npm");
        command.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(directory);
        python::succeed(command.arg(format!("azurite@{AZURITE}")));
    });
    root.join("node_modules/azurite/dist/src/blob/main.js")
}
