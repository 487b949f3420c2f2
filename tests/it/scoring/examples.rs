//! The examples under `pipelines/scoring/`: their command lines are taken out and run.

use super::scores;
use crate::python;
use crate::sandbox::{Ran, Sandbox, stride_pipe};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use stride_pipe::pipeline::Diagnostics;
use stride_pipe::pipeline::tree::{Node, parse};

fn example(name: &str) -> String {
    fs::read_to_string(checkout().join("pipelines/scoring").join(name)).unwrap()
}

fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A directory like the checkout, as far as the examples use it, with a published model and rows of today.
fn prepared() -> Sandbox {
    let sandbox = Sandbox::new();
    let copy = |name: &str| {
        let target = sandbox.path(name);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(checkout().join(name), target).unwrap();
    };
    for name in ["pipelines/scoring/train.yaml", "pipelines/scoring/score.yaml", "data/uci/energy.parquet"] {
        copy(name);
    }
    sandbox.run("run pipelines/scoring/train.yaml --quiet").succeeded();
    let inbox = sandbox.path(format!("inbox/date={}", today()));
    fs::create_dir_all(&inbox).unwrap();
    fs::copy(checkout().join("data/uci/energy.parquet"), inbox.join("rows.parquet")).unwrap();
    sandbox
}

fn today() -> &'static str {
    static TODAY: OnceLock<String> = OnceLock::new();
    TODAY.get_or_init(|| python::succeed(Command::new("date").arg("+%F")).trim().to_owned())
}

/// Runs a command line as a scheduler would; every row of today is scored, and the log is JSON.
#[track_caller]
fn scores_today(sandbox: &Sandbox, shell: &str) {
    let program = PathBuf::from(stride_pipe().get_program());
    let path = std::env::join_paths(
        [program.parent().unwrap().to_owned()]
            .into_iter()
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let output = sandbox.path(format!("scores/date={}/scores.parquet", today()));
    let _ = fs::remove_file(&output);
    let mut command = Command::new("/bin/sh");
    command.args(["-c", shell]).env("PATH", path.unwrap()).env("HOME", sandbox.path("")).current_dir(sandbox.path(""));
    let ran = Ran::from(&command.output().unwrap()).succeeded();
    assert_eq!(scores(&output).len(), 768);
    let log = fs::read_to_string(sandbox.path("score.log")).unwrap_or(ran.stderr);
    assert!(log.lines().count() > 2, "{log}");
    for line in log.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
}

#[test]
fn cron_and_systemd() {
    let sandbox = prepared();
    let crontab = example("crontab");
    let lines: Vec<&str> = crontab.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    let [line] = lines[..] else { panic!("one job: {lines:?}") };
    let words: Vec<&str> = line.splitn(6, ' ').collect();
    assert!(words[..5].iter().all(|word| *word == "*" || word.parse::<u8>().is_ok()), "{line}");
    // What cron does with an escaped per cent sign.
    let shell = words[5].replace("\\%", "%").replace("\"$HOME/stride-pipe\"", "\"$HOME\"");
    scores_today(&sandbox, &shell);

    let service = example("stride-score.service");
    let start = service.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let shell = start.strip_prefix("/bin/sh -c '").and_then(|rest| rest.strip_suffix('\'')).unwrap();
    // What systemd does with doubled signs.
    scores_today(&sandbox, &shell.replace("%%", "%").replace("$$", "$"));
    let timer = example("stride-score.timer");
    for text in [&service, &timer] {
        let fits = |line: &str| line.is_empty() || line.starts_with(['#', '[']) || line.contains('=');
        assert!(text.lines().all(fits), "{text}");
    }
    assert!(timer.contains("OnCalendar=*-*-* 02:15:00") && timer.contains("WantedBy=timers.target"));
}

/// Stands in for Airflow, which is larger than all of this: takes what the example says.
const AIRFLOW: &str = "\
import sys, types
def module(name, **names):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__dict__.update(names)
class DAG:
    def __init__(self, dag_id, schedule, start_date, catchup, max_active_runs): pass
    def __enter__(self): return self
    def __exit__(self, *error): pass
class BashOperator:
    def __init__(self, task_id, cwd, bash_command, retries, retry_delay):
        print(bash_command.replace('{{ ds }}', sys.argv[2]))
for name in ['airflow', 'airflow.providers', 'airflow.providers.standard', 'airflow.providers.standard.operators']:
    module(name)
module('airflow.sdk', DAG=DAG)
module('airflow.providers.standard.operators.bash', BashOperator=BashOperator)
exec(compile(open(sys.argv[1]).read(), sys.argv[1], 'exec'))
";

#[test]
fn airflow_and_kubernetes() {
    let sandbox = prepared();
    let file = checkout().join("pipelines/scoring/airflow_dag.py");
    let shell = python::succeed(Command::new("python3").args(["-c", AIRFLOW]).arg(file).arg(today()));
    scores_today(&sandbox, shell.trim());

    let mut problems = Diagnostics::default();
    let job = parse(&example("kubernetes.yml"), &mut problems).unwrap();
    assert!(problems.is_empty());
    assert_eq!(job.find(&["kind"]).and_then(Node::text), Some("CronJob"));
    let pod = job.find(&["spec", "jobTemplate", "spec", "template", "spec"]).unwrap();
    let container = &pod.find(&["containers"]).unwrap().items()[0];
    let command: Vec<&str> = container.find(&["command"]).unwrap().items().iter().filter_map(Node::text).collect();
    assert_eq!(command, ["/bin/sh", "-c"]);
    // What Kubernetes does with a doubled sign.
    scores_today(&sandbox, &container.find(&["args"]).unwrap().items()[0].text().unwrap().replace("$$", "$"));
}
