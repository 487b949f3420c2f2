//! Searching neighbours: how many distances are computed, and how long it takes.
#![allow(clippy::unwrap_used, reason = "a program for developers")]

mod common;

use ndarray::Array2;
use stride_pipe::gp::neighbours::{Among, NeighbourIndex, SearchRoom};

struct Instant(f64);
impl Instant {
    fn now() -> Self {
        Self(cpu())
    }
    fn elapsed(&self) -> f64 {
        cpu() - self.0
    }
}
fn cpu() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

fn main() {
    let path = std::env::args().nth(1).filter(|p| p.ends_with(".f64"));
    let points: Array2<f64> = match path {
        Some(path) => {
            let bytes = std::fs::read(path).unwrap();
            let values: Vec<f64> = bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect();
            Array2::from_shape_vec((values.len() / 30, 30), values).unwrap()
        }
        None => common::read(&common::SETS[0]).0,
    };
    let (n, d) = points.dim();
    let start = Instant::now();
    let index = NeighbourIndex::new(points.clone()).unwrap();
    println!("{n} x {d}: built in {:.3} s", start.elapsed());
    let (mut room, mut found) = (SearchRoom::default(), Vec::new());
    for count in [16, 40] {
        let start = Instant::now();
        let queries = 5000;
        let mut sum = 0.0;
        for i in 0..queries {
            let row = i * 13 % n;
            index.nearest(
                points.row(row).as_slice().unwrap(),
                count,
                Among { below: u32::MAX, except: Some(row as u32) },
                &mut room,
                &mut found,
            );
            sum += found[count - 1].0;
        }
        println!("{count}: {:.2} us a row, {sum:.3}", start.elapsed() / queries as f64 * 1e6);
        let near: Vec<u32> = index.near_order().collect();
        let start = Instant::now();
        for row in near.iter().step_by(13).take(queries) {
            index.nearest(
                points.row(*row as usize).as_slice().unwrap(),
                count,
                Among { below: u32::MAX, except: Some(*row) },
                &mut room,
                &mut found,
            );
        }
        println!("{count}: {:.2} us a row in order", start.elapsed() / queries as f64 * 1e6);
    }
}
