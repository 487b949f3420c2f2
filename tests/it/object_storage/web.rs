//! Files of a web server, over TLS.

use super::servers::Kind;
use super::{Place, assert_same_rows, rows};
use crate::python;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server is no authority.
const CONSTRAINT: &str = "basicConstraints=critical,CA:FALSE";

struct WebServer(Child);

impl Drop for WebServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn files_of_a_web_server_are_read_over_tls() {
    let place = Place::new(Kind::Moto);
    let sandbox = &place.sandbox;
    rows(sandbox, "www/rows.parquet", 0, 100);
    place.publish("m");
    std::fs::create_dir_all(sandbox.path("www/m/versions/1")).unwrap();
    std::fs::write(sandbox.path("www/m/published.json"), place.server.get("m/published.json")).unwrap();
    std::fs::write(
        sandbox.path("www/m/versions/1/model.safetensors"),
        place.server.get("m/versions/1/model.safetensors"),
    )
    .unwrap();
    let (certificate, key) = (sandbox.path("certificate.pem"), sandbox.path("key.pem"));
    let name =
        ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2", "-addext", CONSTRAINT];
    let new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    python::succeed(
        Command::new("openssl").args(new).args(name).arg("-keyout").arg(&key).arg("-out").arg(&certificate),
    );
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/object_storage/web.py");
    let mut command = Command::new(python::storage_programs().join("python"));
    command.arg(script).arg(sandbox.path("www")).args([&certificate, &key]).stdout(Stdio::piped());
    let mut server = WebServer(command.spawn().unwrap());
    let mut port = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let base = format!("https://127.0.0.1:{}", port.trim());

    let score = |trusting: bool, input: &str| {
        let arguments = format!("score --model {base}/m --input {base}/{input} --output web.parquet");
        let mut command = place.command("machine", place.server.port, &arguments);
        if trusting {
            command.env("SSL_CERT_FILE", &certificate);
        }
        crate::sandbox::Ran::from(&command.env("STRIDE_PIPE_STORAGE_TIMEOUT", "1s").output().unwrap())
    };
    score(true, "rows.parquet").succeeded();
    place.run(&format!("score --model {} --input www/rows.parquet --output disk.parquet", place.url("m"))).succeeded();
    place.server.put("web.parquet", &sandbox.path("web.parquet"));
    assert_same_rows(&place, "web.parquet", "disk.parquet");
    // A server that nobody vouches for is not believed.
    let refused = score(false, "rows.parquet");
    assert!(refused.code == 66 && refused.stderr.contains("certificate"), "{}", refused.stderr);
    let missing = score(true, "nothing.parquet");
    assert!(missing.code == 66 && missing.stderr.contains("there is no such object"), "{}", missing.stderr);
    let several = score(true, "data/");
    assert!(several.code == 65 && several.stderr.contains("no directories or patterns"), "{}", several.stderr);
    let written =
        place.run(&format!("score --model {} --input www/rows.parquet --output {base}/x.parquet", place.url("m")));
    assert!(written.code == 73 && written.stderr.contains("can only be read"), "{}", written.stderr);
}

#[test]
fn addresses_with_secrets_and_without_encryption_are_refused() {
    let place = Place::new(Kind::Moto);
    let hidden = "hiddenSecret";
    for path in
        ["s3://KEY:SECRET@bucket/data/", "https://me:SECRET@server/x.parquet", "https://server/x.parquet?sig=SECRET"]
    {
        let path = path.replace("SECRET", hidden);
        let text =
            format!("version: 1\nname: p\nstages:\n  rows: {{ ingest: {{ path: \"{path}\", features: [a] }} }}\n");
        place.sandbox.write("secret.yaml", &text);
        let ran = place.run("run secret.yaml");
        assert_eq!(ran.code, 78, "{}", ran.stderr);
        let scored =
            place.run(&format!("score --model {path} --input rows.parquet --output x.parquet --results noted"));
        assert_eq!(scored.code, 65, "{}", scored.stderr);
        for said in [ran.stdout, ran.stderr, scored.stdout, scored.stderr] {
            assert!(!said.contains(hidden), "{said}");
        }
    }
    assert!(place.sandbox.files("results").is_empty() && place.sandbox.files("noted").is_empty());
    let plain = place.run("score --model http://127.0.0.1/m --input rows.parquet --output x.parquet");
    assert!(plain.code == 65 && plain.stderr.contains("STRIDE_PIPE_ALLOW_HTTP"), "{}", plain.stderr);
}
