//! The `timings` table: the same rows however the program logs, and without any log.

use crate::sandbox::{SMALL, Sandbox};
use std::time::Duration;
use stride_pipe::engine::plan::{PlanRequest, build};
use stride_pipe::engine::{RunOptions, run};
use stride_pipe::stages::job::{Cancel, Finished, Listener, Progress, Spans, Task};
use stride_pipe::store::read_table;
use stride_pipe::tables::TimingRow;

/// Listens to nothing.
struct Deaf;

impl Listener for Deaf {
    fn run_started(&self, _: &str, _: u64) {}
    fn task_started(&self, _: &Task) {}
    fn task_resumed(&self, _: &Task, _: u64) {}
    fn progress(&self, _: &Task, _: &Progress, _: Option<Duration>) {}
    fn task_finished(&self, _: &Task, _: &Finished) {}
    fn warning(&self, _: &str) {}
    fn note(&self, _: &str) {}
}

/// Two folds of a deep method, which has all the phases that there are.
fn deep() -> String {
    let deep = "method: stride, inducing: { count: 10 }, em: { iterations: 2, particles: 2, final_transitions: 2 }";
    SMALL
        .replace("method: gp", deep)
        .replace("folds: 5", "folds: 2")
        .replace("  folds:", "  columns:\n    describe: { input: rows }\n  folds:")
}

/// What the newest run left, but for times: stage, fold, phase, rows, and `cached` where it is.
fn newest(sandbox: &Sandbox) -> Vec<String> {
    let rows: Vec<TimingRow> = read_table(sandbox.table_files("timings").last().unwrap()).unwrap();
    let text = |row: &TimingRow| {
        assert!(row.wall_s > 0.0 && row.cpu_s >= 0.0 && row.peak_rss_bytes > 1 << 20, "{row:?}");
        assert!(row.case == "default" && !row.run_id.is_empty(), "{row:?}");
        let fold = row.fold.map_or_else(String::new, |fold| format!(" {fold}"));
        format!("{}{fold} {} {}{}", row.stage, row.phase, row.rows, if row.cached { " cached" } else { "" })
    };
    rows.iter().map(text).collect()
}

const EXPECTED: &[&str] = &[
    "rows ingest 60",
    "columns describe 60",
    "folds split 60",
    "model 0 offline 30",
    "model 0 offline.hyper 30",
    "model 0 offline.condition 30",
    "model 0 offline.select 30",
    "model 0 offline.e_step 30",
    "model 0 offline.m_step 30",
    "model 0 offline.local 30",
    "model 0 offline.calibrate 30",
    "model 1 offline 30",
    "model 1 offline.hyper 30",
    "model 1 offline.condition 30",
    "model 1 offline.select 30",
    "model 1 offline.e_step 30",
    "model 1 offline.m_step 30",
    "model 1 offline.local 30",
    "model 1 offline.calibrate 30",
    "predictions 0 online 30",
    "predictions 1 online 30",
    "metrics evaluate 60",
    "run write 60",
];

#[test]
fn timings_do_not_depend_on_the_log() {
    for how in ["", " --quiet", " --log-format json", " --log-format json --quiet"] {
        let sandbox = Sandbox::new();
        sandbox.write("deep.yaml", &deep());
        sandbox.run(&format!("run deep.yaml{how}")).succeeded();
        assert_eq!(newest(&sandbox), EXPECTED, "{how}");
    }
}

#[test]
fn timings_need_no_log_at_all() {
    let sandbox = Sandbox::new();
    let (file, text) = (sandbox.path("deep.yaml"), deep());
    let request = PlanRequest { file: &file, text: &text, sets: &[], results: None, env: &|_: &str| None };
    let (plan, options) = (build(&request).unwrap(), RunOptions { threads: 1, ..RunOptions::default() });
    // A program that uses the library without a log, and one that turns its log off.
    run(&plan, &options, &Cancel::default(), &Deaf).unwrap();
    assert_eq!(newest(&sandbox), EXPECTED);
    let silent = tracing::subscriber::NoSubscriber::default();
    tracing::subscriber::with_default(silent, || run(&plan, &options, &Cancel::default(), &Deaf)).unwrap();
    let cached =
        EXPECTED.iter().map(|row| if row.contains("write") { (*row).to_owned() } else { format!("{row} cached") });
    assert_eq!(newest(&sandbox), cached.collect::<Vec<_>>());
}

#[test]
fn a_phase_ends_where_the_next_begins_and_parts_lie_within_the_whole() {
    let mut spans = Spans::open(&Task::of_run("model", "train"));
    for phase in ["offline", "offline.e_step", "offline.m_step", "offline.e_step"] {
        spans.phase(phase);
        std::thread::sleep(Duration::from_millis(5));
    }
    let halfway = spans.spent();
    spans.phase("offline_at_last");
    std::thread::sleep(Duration::from_millis(5));
    spans.end_phases();
    std::thread::sleep(Duration::from_millis(50));
    let rows = spans.timings(7);
    let names: Vec<&str> = rows.iter().map(|row| row.phase.as_str()).collect();
    assert_eq!(names, ["offline", "offline.e_step", "offline.m_step", "offline_at_last"]);
    let seconds: Vec<f64> = rows.iter().map(|row| row.wall_s).collect();
    assert!(seconds[1] >= 0.010 && seconds[2] >= 0.005 && seconds[3] >= 0.005, "{seconds:?}");
    assert!(seconds[0] >= seconds[1] + seconds[2] + 0.005 && seconds[0] < spans.seconds() - 0.05, "{seconds:?}");
    // What is still open is read without ending it.
    assert!(halfway[1].wall_s >= 0.010 && halfway[1].wall_s <= seconds[1], "{halfway:?}");
    assert!(halfway[0].wall_s >= halfway[1].wall_s + halfway[2].wall_s, "{halfway:?}");
    // Another attempt adds to it, under the time at which the first began.
    let mut again = Spans::open(&Task::of_run("model", "train"));
    again.go_on(halfway.clone());
    again.phase("offline");
    std::thread::sleep(Duration::from_millis(5));
    let (total, first) = (&again.timings(7)[0], &halfway[0]);
    assert!(total.wall_s >= first.wall_s + 0.005 && total.started_at == first.started_at, "{total:?}");
}
