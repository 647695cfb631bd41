//! `kill -9` at any moment of a training, and `--resume`: the weights are in the end those of a run
//! that was not killed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const KILLS: usize = 20;

fn train(dir: &Path, out: &str, resume: bool) -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_elinvar"));
    c.current_dir(dir).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    c.args(["train", "digits", "--quiet", "--out", out]);
    if resume {
        c.arg("--resume");
    }
    // With --resume the settings come from the checkpoint; before the first one there is, from
    // here.
    if !dir.join(out).join("checkpoint.safetensors").exists() {
        c.args(["--epochs", "2", "--batch", "64", "--seed", "5", "--checkpoint-steps", "1"]);
    } else {
        c.args(["--checkpoint-steps", "1"]);
    }
    c
}

fn hash(stdout: &[u8]) -> String {
    let text = String::from_utf8_lossy(stdout);
    text.lines()
        .last()
        .filter(|l| l.starts_with("weights sha256 "))
        .unwrap_or_else(|| panic!("{text}"))
        .to_owned()
}

/// Milliseconds until a kill, spread over a run's life; the same on every run of the test.
fn delays() -> impl Iterator<Item = u64> {
    (1u64..).map(|i| 5 + (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) % 700)
}

#[test]
fn twenty_kills_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let whole = train(dir.path(), "whole", false).output().unwrap();
    assert!(whole.status.success(), "{}", String::from_utf8_lossy(&whole.stderr));
    let mut delays = delays();
    let (mut kills, mut runs) = (0, 0);
    while kills < KILLS {
        let out = format!("run{runs}");
        runs += 1;
        let ended = loop {
            let mut child = train(dir.path(), &out, true).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(delays.next().unwrap()));
            // On Unix this is SIGKILL: the process has no say in it.
            let alive = child.try_wait().unwrap().is_none();
            if alive && kills < KILLS {
                child.kill().unwrap();
                kills += 1;
                child.wait().unwrap();
            } else {
                break child.wait_with_output().unwrap();
            }
        };
        assert!(ended.status.success(), "{out}: {}", String::from_utf8_lossy(&ended.stderr));
        assert_eq!(hash(&ended.stdout), hash(&whole.stdout), "{out}");
        for name in ["weights.safetensors", "metrics.jsonl", "curve.svg", "wrong.svg"] {
            let file = |run: &str| std::fs::read(dir.path().join(run).join(name)).expect(name);
            assert!(file(&out) == file("whole"), "{out}/{name} differs");
        }
    }
}

/// No room for a checkpoint: one sentence, and the last good one is as it was. A limit on the size
/// of files stands for the full disk; the system answers both in the same way, in the middle of a
/// write.
#[cfg(unix)]
#[test]
fn no_room_for_a_checkpoint_leaves_the_last_one() {
    let dir = tempfile::tempdir().unwrap();
    let whole = train(dir.path(), "out", false).output().unwrap();
    assert!(whole.status.success(), "{}", String::from_utf8_lossy(&whole.stderr));
    let file = dir.path().join("out/checkpoint.safetensors");
    let before = std::fs::read(&file).unwrap();
    assert!(before.len() > 160 * 1024, "{} bytes", before.len());
    // 150 blocks are 75 or 150 KiB, as the shell counts; the signal is ignored, so that the write
    // fails instead.
    let script = "trap '' XFSZ; ulimit -f 150; exec \"$0\" train digits --quiet --out out --epochs 1 --checkpoint-steps 1";
    let o = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_elinvar")])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&o.stderr);
    assert_eq!(o.status.code(), Some(1), "{text}");
    assert!(text.starts_with("elinvar: out/checkpoint.safetensors: ") && text.lines().count() == 1, "{text}");
    assert!(std::fs::read(&file).unwrap() == before, "the checkpoint changed");
    let parts = std::fs::read_dir(dir.path().join("out")).unwrap();
    let left: Vec<_> =
        parts.map(|e| e.unwrap().file_name()).filter(|n| n.to_string_lossy().ends_with(".part")).collect();
    assert!(left.is_empty(), "{left:?}");
}
