//! The table of a profile: a row for each op, and its gradient.
//!
//! The time of a row is that of the device: of kernels and copies where there is a queue, else
//! of the work, without other work inside of it.

use elinvar_core::profile::{Event, Kind, Record, Track};
use std::collections::{BTreeMap, HashSet};

/// What a machine can do at most, as measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Bytes that are read and written in a second.
    pub bytes_per_second: f64,
    /// Floating-point operations in a second; a fused multiply-add is two.
    pub flops_per_second: f64,
}

/// An op, or the gradient of one, in a profile. Times are in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpRow {
    /// The op's name, with "(gradient)" behind it for that; the name of the work if no op asked for
    /// it.
    pub op: String,
    /// How often it was called.
    pub calls: u64,
    /// Time of the calls on the host, without other ops inside of them.
    pub host: f64,
    /// Time of the work on the device.
    pub time: f64,
    /// Bytes of operands and results, each element once.
    pub bytes: f64,
    /// Operations of products, convolutions and attention.
    pub flops: f64,
}

impl OpRow {
    /// Bytes per second, if there are any.
    pub fn bytes_per_second(&self) -> Option<f64> {
        (self.bytes > 0.0 && self.time > 0.0).then(|| self.bytes / self.time)
    }
    /// Operations per second, if there are any.
    pub fn flops_per_second(&self) -> Option<f64> {
        (self.flops > 0.0 && self.time > 0.0).then(|| self.flops / self.time)
    }
    /// The least time that the limits allow, as a part of the time: 1 is as fast as the machine.
    /// More than 1 is what a cache gives, or a fused map whose time is its reader's.
    pub fn part_of_limit(&self, limits: &Limits) -> Option<f64> {
        let parts = [
            self.bytes_per_second().map(|rate| rate / limits.bytes_per_second),
            self.flops_per_second().map(|rate| rate / limits.flops_per_second),
        ];
        parts.into_iter().flatten().max_by(f64::total_cmp)
    }
}

/// What is summed for a row.
#[derive(Default)]
struct Sums {
    calls: u64,
    /// Pieces of work, which are calls if no op asked for them.
    pieces: u64,
    host: u64,
    time: u64,
    bytes: u64,
    /// Bytes of the memory that kernels were given: all that is known of a GPU's backend that is
    /// chosen at compile time.
    kernel_bytes: u64,
    flops: u64,
}

/// The rows, the longest first.
pub(super) fn rows(record: &Record) -> Vec<OpRow> {
    let queues: HashSet<&str> =
        record.events.iter().filter(|e| is_queued(e)).filter_map(|e| e.device.as_deref()).collect();
    let is_work = |e: &Event| !e.kind.is_host_call();
    let calls_alone = !record.events.iter().any(is_work);
    let mut all: BTreeMap<String, Sums> = BTreeMap::new();
    for e in record.events.iter().filter(|e| e.kind != Kind::Span) {
        let name = if e.call.is_none() { e.name.to_string() } else { e.call.to_string() };
        let sums = all.entry(name).or_default();
        match e.kind {
            Kind::Span => {}
            Kind::Op | Kind::Gradient => {
                sums.calls += 1;
                sums.host += e.own;
                sums.time += if calls_alone { e.own } else { 0 };
            }
            Kind::Work | Kind::Copy | Kind::Kernel if is_queued(e) => {
                sums.time += e.duration;
                sums.kernel_bytes += e.cost.bytes;
            }
            Kind::Work | Kind::Copy | Kind::Kernel => {
                sums.pieces += 1;
                sums.bytes += e.cost.bytes;
                sums.flops += e.cost.flops;
                // Giving work to a queue is not the work.
                if !e.device.as_deref().is_some_and(|d| queues.contains(d)) {
                    sums.time += e.own;
                }
            }
        }
    }
    let seconds = |ns: u64| ns as f64 / 1e9;
    let row = |(op, s): (String, Sums)| OpRow {
        op,
        calls: if s.calls > 0 { s.calls } else { s.pieces },
        host: seconds(s.host),
        time: seconds(s.time),
        bytes: (if s.bytes > 0 { s.bytes } else { s.kernel_bytes }) as f64,
        flops: s.flops as f64,
    };
    let mut rows: Vec<OpRow> = all.into_iter().map(row).collect();
    // Rows of one time stay in the order of their names.
    rows.sort_by(|a, b| b.time.total_cmp(&a.time));
    rows
}

fn is_queued(e: &Event) -> bool {
    matches!(e.track, Track::Queue(..))
}

/// The heads of the columns; the last one only if there are limits.
const HEADS: [&str; 8] = ["op", "calls", "host ms", "time ms", "share", "GB/s", "GFLOP/s", "of limit"];

/// The rows as text.
pub(super) fn table(record: &Record, limits: Option<&Limits>) -> String {
    let rows = rows(record);
    let sum = |of: fn(&OpRow) -> f64| rows.iter().map(of).sum::<f64>();
    let time = sum(|r| r.time);
    let share = |part: f64| format!("{:.1} %", part * 100.0);
    let rate = |per_second: Option<f64>| per_second.map_or("-".into(), |r| format!("{:.1}", r / 1e9));
    let mut lines = vec![HEADS.map(String::from)];
    lines.extend(rows.iter().map(|r| {
        [
            r.op.clone(),
            r.calls.to_string(),
            ms(r.host),
            ms(r.time),
            share(if time > 0.0 { r.time / time } else { 0.0 }),
            rate(r.bytes_per_second()),
            rate(r.flops_per_second()),
            limits.and_then(|l| r.part_of_limit(l)).map_or("-".into(), share),
        ]
    }));
    let calls: u64 = rows.iter().map(|r| r.calls).sum();
    let mut all = [const { String::new() }; HEADS.len()];
    (all[0], all[1], all[2], all[3]) = ("all".into(), calls.to_string(), ms(sum(|r| r.host)), ms(time));
    lines.push(all);
    let mut text = aligned(&lines, if limits.is_some() { HEADS.len() } else { HEADS.len() - 1 });
    text += &format!("{} ms from beginning to end\n", ms((record.end - record.start) as f64 / 1e9));
    if record.left_out > 0 {
        text += &format!("{} events were left out\n", record.left_out);
    }
    for note in &record.notes {
        text += &format!("{note}\n");
    }
    text
}

fn ms(seconds: f64) -> String {
    format!("{:.3}", seconds * 1e3)
}

/// The first columns of lines, each as wide as its widest cell: names to the left, numbers to the
/// right.
fn aligned(lines: &[[String; HEADS.len()]], columns: usize) -> String {
    let width = |c: usize| lines.iter().map(|line| line[c].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let mut row = format!("{:<w$}", line[0], w = widths[0]);
        for (cell, w) in line.iter().zip(&widths).skip(1) {
            row += &format!("  {cell:>w$}");
        }
        text += row.trim_end();
        text.push('\n');
    }
    text
}
