//! The JSON trace event format, as Perfetto and Chrome read it.
//!
//! Source: "Trace Event Format", the Chromium project. Used of it: complete events (`X`: begin and
//! duration in microseconds), counters (`C`), and metadata (`M`) with the names of tracks. A track
//! is a process and a thread: the threads of the host are threads of process 1, and each device is
//! a process of its own whose threads are its queues, from 1.

use elinvar_core::profile::{Event, Record, Track};
use std::collections::BTreeSet;
use std::io::{Result, Write};

/// The process of the host.
const HOST: usize = 1;

/// Writes a trace. Events of a track are in the order of their beginnings, outer ones first.
pub(super) fn write(record: &Record, out: &mut dyn Write) -> Result<()> {
    let queues: BTreeSet<(&str, u32)> = record.events.iter().filter_map(queue).collect();
    let devices: BTreeSet<&str> = queues.iter().map(|(device, _)| *device).collect();
    let devices: Vec<&str> = devices.into_iter().collect();
    let process = |device: &str| {
        HOST + 1 + devices.iter().position(|d| *d == device).expect("they were collected above")
    };
    let place = |e: &Event| match &e.track {
        Track::Thread(thread) => (HOST, *thread),
        Track::Queue(device, number) => (process(device), number + 1),
    };
    let mut events: Vec<((usize, u32), &Event)> = record.events.iter().map(|e| (place(e), e)).collect();
    events.sort_by_key(|(place, e)| (*place, e.start, std::cmp::Reverse(e.duration)));
    let threads: BTreeSet<u32> =
        events.iter().filter(|((pid, _), _)| *pid == HOST).map(|((_, thread), _)| *thread).collect();

    write!(
        out,
        "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"version\":{}",
        text(env!("CARGO_PKG_VERSION"))
    )?;
    write!(out, ",\"events left out\":{},\"notes\":[", record.left_out)?;
    for (i, note) in record.notes.iter().enumerate() {
        write!(out, "{}{}", if i > 0 { "," } else { "" }, text(note))?;
    }
    write!(out, "]}},\"traceEvents\":[")?;
    name(out, "process_name", HOST, 0, "host")?;
    for thread in threads {
        write!(out, ",")?;
        name(out, "thread_name", HOST, thread, &format!("thread {thread}"))?;
    }
    for device in &devices {
        write!(out, ",")?;
        name(out, "process_name", process(device), 0, device)?;
    }
    for (device, number) in queues {
        let text = if number == 0 { "queue".to_string() } else { format!("queue {number}") };
        write!(out, ",")?;
        name(out, "thread_name", process(device), number + 1, &text)?;
    }
    for ((pid, tid), e) in events {
        write!(out, ",\n{{\"ph\":\"X\",\"name\":{},\"cat\":\"{}\"", text(&e.name), e.kind.word())?;
        write!(out, ",\"pid\":{pid},\"tid\":{tid},\"ts\":{}", microseconds(e.start - record.start))?;
        write!(out, ",\"dur\":{},\"args\":{{", microseconds(e.duration))?;
        args(out, e)?;
        write!(out, "}}}}")?;
    }
    for s in &record.samples {
        let name = text(&format!("memory of {}", s.device));
        let at = microseconds(s.at - record.start);
        write!(out, ",\n{{\"ph\":\"C\",\"name\":{name},\"pid\":{HOST},\"tid\":0,\"ts\":{at}")?;
        write!(out, ",\"args\":{{\"bytes\":{}}}}}", s.bytes)?;
    }
    writeln!(out, "]}}")
}

fn queue(e: &Event) -> Option<(&str, u32)> {
    match &e.track {
        Track::Queue(device, number) => Some((device, *number)),
        Track::Thread(_) => None,
    }
}

/// What a viewer shows of a chosen event.
fn args(out: &mut dyn Write, e: &Event) -> Result<()> {
    let mut comma = "";
    if !e.kind.is_host_call() && !e.call.is_none() {
        write!(out, "\"op\":{}", text(&e.call.to_string()))?;
        comma = ",";
    }
    if let (Some(device), Track::Thread(_)) = (&e.device, &e.track) {
        write!(out, "{comma}\"device\":{}", text(device))?;
        comma = ",";
    }
    for (name, count) in [("bytes", e.cost.bytes), ("flops", e.cost.flops)] {
        if count > 0 {
            write!(out, "{comma}\"{name}\":{count}")?;
            comma = ",";
        }
    }
    Ok(())
}

/// The name of a process or a thread.
fn name(out: &mut dyn Write, what: &str, pid: usize, tid: u32, name: &str) -> Result<()> {
    write!(
        out,
        "\n{{\"ph\":\"M\",\"name\":\"{what}\",\"pid\":{pid},\"tid\":{tid},\"args\":{{\"name\":{}}}}}",
        text(name)
    )
}

/// Nanoseconds as microseconds, without a rounding.
fn microseconds(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

/// A JSON string.
fn text(s: &str) -> String {
    let mut quoted = String::with_capacity(s.len() + 2);
    quoted.push('"');
    for c in s.chars() {
        match c {
            '"' => quoted += "\\\"",
            '\\' => quoted += "\\\\",
            c if c < ' ' => quoted += &format!("\\u{:04x}", c as u32),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
