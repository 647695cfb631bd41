//! Profiles: what is in the trace and in the table of a step of training.

use elinvar::nn::Module;
use elinvar::nn::loss::cross_entropy;
use elinvar::nn::models::Mlp;
use elinvar::nn::optim::{Adam, Optimizer};
use elinvar::prelude::*;
use elinvar::profile::{Kind, Limits, TraceFile, Track, span};
use elinvar::{Profile, profile};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A profile sees all threads: tests that count take turns.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

const STEPS: usize = 2;

/// A few steps of training.
fn steps(device: &Device) -> Profile {
    let mut rng = Generator::new(1);
    let net: Mlp<Any> = Mlp::new(&[8, 16, 4], &mut rng, device).unwrap();
    let (x, y): (Tensor, Tensor) = (rng.randn([32, 8], device), rng.randint(0, 4, [32], DType::I64, device));
    let mut adam = Adam::new(1e-3);
    let ((), profile) = profile(|| {
        for _ in 0..STEPS {
            let _step = span("my step");
            let loss = cross_entropy(&net.forward(&x), &y);
            adam.step(&net, &loss.backward()).unwrap();
        }
        net.parameters().iter().for_each(|p| p.get().block_until_ready().unwrap());
    });
    profile
}

/// The rules of the format: complete events that nest, counters and metadata; times of a track
/// never go back.
fn check(trace: &str) -> BTreeMap<(u64, u64), Vec<(String, String)>> {
    let trace: Value = serde_json::from_str(trace).unwrap_or_else(|e| panic!("{e}: {trace}"));
    let (mut tracks, mut named) = (BTreeMap::<_, Vec<_>>::new(), BTreeSet::new());
    let (mut open, mut last) = (BTreeMap::<_, Vec<f64>>::new(), BTreeMap::new());
    for e in trace["traceEvents"].as_array().unwrap() {
        let (pid, tid) = (e["pid"].as_u64().unwrap(), e["tid"].as_u64().unwrap());
        let name = e["name"].as_str().unwrap();
        match e["ph"].as_str().unwrap() {
            "M" => {
                assert!(
                    ["process_name", "thread_name"].contains(&name) && e["args"]["name"].is_string(),
                    "{e}"
                );
                named.insert((name.to_string(), pid, if name == "thread_name" { tid } else { 0 }));
            }
            "C" => {
                assert!(name.starts_with("memory of ") && e["args"]["bytes"].is_u64(), "{e}");
                let at = e["ts"].as_f64().unwrap();
                assert!(last.insert(name.to_string(), at).is_none_or(|before| before <= at), "{e}");
            }
            "X" => {
                let (at, dur) = (e["ts"].as_f64().unwrap(), e["dur"].as_f64().unwrap());
                assert!(at >= 0.0 && dur >= 0.0 && !name.is_empty(), "{e}");
                assert!(named.contains(&("process_name".into(), pid, 0)), "{e}");
                assert!(named.contains(&("thread_name".into(), pid, tid)), "{e}");
                let track = format!("{pid} {tid}");
                assert!(last.insert(track.clone(), at).is_none_or(|before| before <= at), "{e}");
                let ends = open.entry(track).or_default();
                // A nanosecond of a number of microseconds is not exact in f64.
                ends.retain(|&end| end > at + 1e-4);
                assert!(ends.iter().all(|&end| at + dur <= end + 1e-3), "an event crosses another: {e}");
                ends.push(at + dur);
                let category = e["cat"].as_str().unwrap();
                tracks.entry((pid, tid)).or_default().push((category.to_string(), name.to_string()));
            }
            other => panic!("phase {other}"),
        }
    }
    tracks
}

#[test]
fn a_step_of_training_is_seen_whole() {
    let _alone = alone();
    for device in [Device::cpu(), Device::reference()] {
        let profile = steps(&device);
        let tracks = check(&profile.trace());
        let all: Vec<&(String, String)> = tracks.values().flatten().collect();
        let count = |cat: &str, name: &str| all.iter().filter(|e| e.0 == cat && e.1 == name).count();
        for (cat, name, least) in [
            ("span", "my step", STEPS),
            ("span", "backward", STEPS),
            ("span", "optimiser step", STEPS),
            ("op", "linear", 2 * STEPS),
            ("op", "cross_entropy", STEPS),
            ("gradient", "linear", 2 * STEPS),
            ("gradient", "cross_entropy", STEPS),
            ("work", "contract", 4 * STEPS),
            ("work", "adam", STEPS),
        ] {
            let seen = count(cat, name);
            assert!(seen >= least, "{device}: {cat} {name}: {seen} of {least}: {all:?}");
        }
        // Without a queue everything is on the host's threads.
        assert!(tracks.keys().all(|(pid, _)| *pid == 1));
        assert!(profile.events().iter().all(|e| e.device.as_deref().is_none_or(|d| d == device.to_string())));
        assert!(profile.events().iter().all(|e| e.own <= e.duration && matches!(e.track, Track::Thread(_))));
    }
}

/// A linear layer reads its operands once and writes its result once; its products count.
#[test]
fn the_table_has_rows_by_op_and_rates() {
    let _alone = alone();
    let profile = steps(&Device::reference());
    let rows = profile.ops();
    let row = |op: &str| rows.iter().find(|r| r.op == op).unwrap_or_else(|| panic!("{op}: {rows:?}"));
    let linear = row("linear");
    let steps = STEPS as f64;
    assert_eq!((linear.calls, linear.flops), (4, steps * 2.0 * 32.0 * (8.0 * 16.0 + 16.0 * 4.0)));
    assert!(linear.bytes >= steps * 4.0 * 32.0 * (8.0 + 2.0 * 16.0 + 4.0), "{linear:?}");
    assert!(linear.time > 0.0 && linear.host >= linear.time, "{linear:?}");
    // The first layer's input has no gradient.
    assert_eq!(row("linear (gradient)").calls, 4);
    assert_eq!((row("adam").calls, row("adam").host), (2, 0.0));
    assert!(rows.windows(2).all(|r| r[0].time >= r[1].time), "the longest first");
    let limits = Limits { bytes_per_second: 1e30, flops_per_second: linear.flops / linear.time };
    assert_eq!(linear.part_of_limit(&limits), Some(1.0));

    let text = profile.table(Some(&limits));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("op ") && lines[0].ends_with("of limit"), "{text}");
    assert!(lines.iter().any(|l| l.starts_with("linear  ") && l.ends_with("100.0 %")), "{text}");
    // Columns are aligned: each row ends where the others do, but those without a last column.
    assert!(lines[1..=rows.len()].iter().all(|l| l.len() == lines[0].len()), "{text}");
    assert!(!profile.table(None).contains("of limit"));
}

#[test]
fn an_op_that_is_put_off_has_its_own_time() {
    let _alone = alone();
    let d = Device::cpu();
    let x: Tensor = Generator::new(0).randn([1 << 18], &d);
    let (_, profile) = profile(|| x.exp().tanh().block_until_ready().unwrap());
    let put_off =
        profile.events().iter().find(|e| e.name == "deferred").unwrap_or_else(|| panic!("{profile:?}"));
    assert_eq!((put_off.call.name, put_off.kind), ("tanh", Kind::Work));
    assert!(
        profile.memory().iter().any(|s| &*s.device == "cpu" && s.bytes >= 1 << 20),
        "{:?}",
        profile.memory()
    );
}

/// A profile in a profile; a closure that panics; threads.
#[test]
fn profiles_nest_and_end() {
    let _alone = alone();
    let d = Device::reference();
    let x: Tensor = Tensor::new([1.0f32, 2.0], &d);
    let names = |p: &Profile| -> Vec<String> {
        let ops = p.events().iter().filter(|e| e.kind == Kind::Op);
        ops.map(|e| e.name.to_string()).collect()
    };
    let (inner, outer) = profile(|| {
        let _ = x.sin();
        let ((), inner) = profile(|| {
            std::thread::scope(|s| drop(s.spawn(|| x.cos()).join().unwrap()));
        });
        let _ = x.tan();
        inner
    });
    assert_eq!(names(&inner), ["cos"]);
    assert_eq!(names(&outer), ["sin", "cos", "tan"]);
    let threads: BTreeSet<&Track> = outer.events().iter().map(|e| &e.track).collect();
    assert_eq!(threads.len(), 2);
    let e = std::panic::catch_unwind(|| profile(|| panic!("on purpose")));
    assert!(e.is_err() && !elinvar::core::profile::is_on());
}

/// A trace that cannot be written leaves the old one as it was.
#[test]
fn a_trace_is_written_whole_or_not() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.json");
    let file = TraceFile::begin(&path);
    let _: Tensor = Tensor::new([1.0f32], &Device::reference()).sin();
    let profile = file.finish().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, profile.trace());
    check(&text);
    let missing = dir.path().join("missing/trace.json");
    let e = TraceFile::begin(&missing).finish().unwrap_err();
    assert!(e.kind() == ErrorKind::Io && e.message().contains("trace.json"), "{e}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}
