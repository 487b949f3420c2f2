//! Searching neighbours among the rows of Fashion-MNIST features: processor time of a query, and as a ratio to looking at all
//! rows.
//!
//!   cargo bench --bench neighbours
#![allow(clippy::unwrap_used, reason = "a program for developers")]

mod common;

use rustix::time::{ClockId, clock_gettime};
use stride_pipe::gp::neighbours::{Among, NeighbourIndex, SearchRoom};

const QUERIES: usize = 5000;
/// Looking at all rows is slow: fewer queries are enough.
const PLAIN_QUERIES: usize = 200;

/// Processor seconds of some work.
fn seconds(work: impl FnOnce()) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
    };
    let start = now();
    work();
    now() - start
}

fn main() {
    // `cargo test --benches` only wants to know that it compiles.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let points = common::read(&common::SETS[0]).0;
    let n = points.nrows();
    let mut index = None;
    let building = seconds(|| index = Some(NeighbourIndex::new(points.clone()).unwrap()));
    let index = index.unwrap();
    println!("{n} rows: an index in {building:.2} s");
    let query = |number: usize| points.row(number * 13 % n).to_slice().unwrap();
    for count in [16, 40] {
        let (mut room, mut found) = (SearchRoom::default(), Vec::new());
        let fast = seconds(|| {
            for number in 0..QUERIES {
                index.nearest(query(number), count, Among::ALL, &mut room, &mut found);
            }
        }) / QUERIES as f64;
        let plain = seconds(|| {
            for number in 0..PLAIN_QUERIES {
                let own = query(number);
                let distance = |row: &[f64]| row.iter().zip(own).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
                let mut all: Vec<(f64, usize)> =
                    points.outer_iter().map(|row| distance(row.to_slice().unwrap())).zip(0..).collect();
                all.select_nth_unstable_by(count, |a, b| a.0.total_cmp(&b.0));
                assert!(all[count].0 >= 0.0);
            }
        }) / PLAIN_QUERIES as f64;
        println!("{count} neighbours: {:.0} µs a row, {:.3} of looking at all rows", 1e6 * fast, fast / plain);
    }
}
