//! The program's interface: exit status, standard output, standard error.

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn lab(args: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_elinvar-lab"))
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .expect("the program starts")
}

fn stdout(o: &Output) -> &str {
    std::str::from_utf8(&o.stdout).expect("UTF-8")
}

fn stderr(o: &Output) -> &str {
    std::str::from_utf8(&o.stderr).expect("UTF-8")
}

#[test]
fn wrong_command_lines_are_told_with_status_2() {
    let dir = tempfile::tempdir().unwrap();
    let rows: [(&[&str], &str); 12] = [
        (&[], "Usage: elinvar-lab <COMMAND>"),
        (&["bench", "--count", "--all"], "cannot be used with"),
        (&["bench", "--count", "--profile"], "cannot be used with"),
        (&["gates", "--seconds", "0"], "it must be a positive number"),
        (&["train"], "unrecognized subcommand 'train'"),
        (&["conformance", "--part", "3/2"], "a part is K/N, with K from 1 to N"),
        (&["conformance", "--random", "1", "--kind", "poem"], "invalid value 'poem'"),
        (&["conformance", "--kind", "svd"], "--random <CALLS>"),
        (&["conformance", "--random", "1", "--kind", "svd", "--op", "add"], "cannot be used with"),
        (&["ulp", "foo"], "invalid value 'foo'"),
        (&["bench", "--threads", "0"], "0 is not in 1..=1024"),
        (&["bench", "--seconds", "0"], "it must be a positive number"),
    ];
    for (args, sentence) in rows {
        let o = lab(args, dir.path());
        assert_eq!(o.status.code(), Some(2), "{args:?}: {}", stderr(&o));
        assert!(stderr(&o).contains(sentence), "{args:?}: {}", stderr(&o));
        assert!(o.stdout.is_empty(), "{args:?}: {}", stdout(&o));
    }
}

/// An error is reported in one line, with status 1, and before any work is done.
#[test]
fn what_fails_is_told_in_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    let rows: [(&[&str], &str); 5] = [
        (&["conformance", "--device", "abacus"], "there is no device called \"abacus\""),
        (&["conformance", "--golden", "empty"], "empty"),
        (&["conformance", "--op", "no such op"], "no such op"),
        (&["bench", "gemm", "no such row"], "bench: no row has \"no such row\" in its name"),
        (&["bench", "--memory-of", "train_elephant"], "there are train_mlp, train_cnn, train_gpt"),
    ];
    for (args, sentence) in rows {
        let o = lab(args, dir.path());
        let text = stderr(&o);
        assert_eq!(o.status.code(), Some(1), "{args:?}: {text}");
        assert!(text.starts_with("elinvar-lab: ") && text.contains(sentence), "{args:?}: {text}");
        assert!(text.ends_with('\n') && text.lines().count() == 1, "{args:?}: {text}");
        assert!(o.stdout.is_empty(), "{args:?}: {}", stdout(&o));
    }
}

/// Without cases, and one call of a run alone.
#[test]
fn random_calls_are_of_the_kinds_that_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let calls = ["conformance", "--random", "2", "--round", "3", "--seed", "1"];
    let o = lab(&[&calls[..], &["--kind", "fft", "--kind", "Upload"]].concat(), dir.path());
    let line = |kind| format!("2 of 2 random calls of {kind} give the bits of the reference\n");
    assert!(o.status.success() && stdout(&o) == line("Upload") + &line("fft"), "{o:?}");
}

#[test]
fn help_version_and_completions_go_to_standard_output() {
    let dir = tempfile::tempdir().unwrap();
    for (args, text) in [
        (&["--help"][..], "Commands:"),
        (&["--version"], concat!("elinvar-lab ", env!("CARGO_PKG_VERSION"))),
        (&["completions", "bash"], "conformance"),
    ] {
        let o = lab(args, dir.path());
        assert!(o.status.success() && stdout(&o).contains(text) && o.stderr.is_empty(), "{args:?}: {o:?}");
    }
}

#[test]
fn random_calls_are_compared_with_the_reference() {
    let dir = tempfile::tempdir().unwrap();
    let calls = ["conformance", "--device", "cpu", "--op", "abs", "--random", "3", "--seed", "7"];
    let o = lab(&calls, dir.path());
    assert!(o.status.success(), "{}", stdout(&o));
    let said = stdout(&o);
    let lines = said.lines().filter(|line| line.starts_with("3 of 3 random calls of "));
    assert!(lines.count() >= 20, "every kind of work: {said}");
}

#[test]
fn conformance_reports_its_cases() {
    let dir = tempfile::tempdir().unwrap();
    // The products of `Precision::Fast` and random calls have lines of their own, before the last.
    for rest in [&["abs"][..], &["matmul", "--random", "1"]] {
        let calls = [&["conformance", "--device", "reference", "--op"][..], rest].concat();
        let o = lab(&calls, dir.path());
        assert!(o.status.success(), "{}{}", stdout(&o), stderr(&o));
        let last = stdout(&o).lines().last().unwrap();
        assert!(last.ends_with(" passed, 0 failed, 0 skipped") && !last.starts_with('0'), "{last}");
    }
}

/// A row is a line of JSON on standard output; the progress is on standard error.
#[test]
fn bench_prints_a_line_for_each_row() {
    let dir = tempfile::tempdir().unwrap();
    let rows: [(&[&str], &[(&str, &str)]); 3] = [
        (&["bench", "|tiny_add|", "--seconds", "0.01", "--device", "reference"], &[("ours", "tiny_add")]),
        (
            &["bench", "|tiny_add|", "--seconds", "0.01", "--threads", "1"],
            &[("ours", "tiny_add"), ("ours-static", "tiny_add")],
        ),
        (
            &["bench", "|create2|", "gemm_nn|64x", "--seconds", "0.01", "--device", "reference"],
            &[("ours", "gemm_nn"), ("ours", "create2")],
        ),
    ];
    for (args, want) in rows {
        let o = lab(args, dir.path());
        assert!(o.status.success(), "{args:?}: {}", stderr(&o));
        let lines: Vec<serde_json::Value> =
            stdout(&o).lines().map(|l| serde_json::from_str(l).expect(l)).collect();
        let names: Vec<_> =
            lines.iter().map(|l| (l["peer"].as_str().unwrap(), l["workload"].as_str().unwrap())).collect();
        assert_eq!(names, want, "{args:?}");
        for line in &lines {
            let times = ["min_s", "median_s", "max_s"].map(|name| line[name].as_f64().unwrap());
            assert!(times[0] > 0.0 && times.is_sorted(), "{line}");
            assert!(line["samples"].as_u64().unwrap() >= 5 && line["threads"] == 1, "{line}");
        }
        assert!(stderr(&o).starts_with("[1/"), "{}", stderr(&o));
    }
    let o = lab(&["bench", "--list"], dir.path());
    assert!(stdout(&o).lines().any(|l| l == "h. overhead|tiny_add|4|f32"), "{}", stdout(&o));
}

/// Scripts choose the rows of several libraries by the environment; the command line takes
/// precedence.
#[test]
fn bench_is_told_its_rows_by_the_environment() {
    for (only, args, want) in [
        ("|create2|,overhead|tiny_add|", &["bench", "--list"][..], 2),
        ("attention", &["bench", "--list"], 4),
        ("attention", &["bench", "--list", "inference"], 6),
        ("", &["bench", "--list"], 107),
    ] {
        let o = Command::new(env!("CARGO_BIN_EXE_elinvar-lab"))
            .args(args)
            .env("BENCH_ONLY", only)
            .output()
            .unwrap();
        assert_eq!(stdout(&o).lines().count(), want, "{only} {args:?}: {}", stderr(&o));
    }
}

/// Counts, and the profile of a row, are tables.
#[test]
fn bench_prints_counts_and_profiles() {
    let dir = tempfile::tempdir().unwrap();
    let o = lab(&["bench", "--count"], dir.path());
    assert!(o.status.success(), "{}", stderr(&o));
    let lines: Vec<Vec<&str>> = stdout(&o).lines().map(|l| l.split_whitespace().collect()).collect();
    let plain = lines.iter().map(|l| l[0]).filter(|name| !name.contains('-'));
    assert_eq!(plain.collect::<Vec<_>>(), ["step", "mlp", "cnn", "gpt", "bert"]);
    let of_mlp = ["mlp", "mlp-captured", "mlp-bf16", "mlp-bf16-captured"];
    assert_eq!(lines[1..5].iter().map(|l| l[0]).collect::<Vec<_>>(), of_mlp);
    assert_eq!(lines.len(), 17);
    let o = lab(&["bench", "--count", "mlp"], dir.path());
    let one: Vec<Vec<&str>> = stdout(&o).lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(one, lines[..5]);
    for (more, sentence) in [
        (["gemm", "--device", "cpu"], "bench: no model gemm to count; there are mlp, cnn, gpt, bert"),
        (["mlp", "--device", "cpu"], "count: cpu has no queue whose launches count"),
    ] {
        let o = lab(&[&["bench", "--count"], &more[..]].concat(), dir.path());
        assert!(!o.status.success() && stderr(&o).contains(sentence), "{}", stderr(&o));
    }
    let o = lab(&["bench", "--profile", "gemm_nn|64x", "--seconds", "0.01"], dir.path());
    assert!(o.status.success(), "{}", stderr(&o));
    let said = stdout(&o);
    assert!(
        said.lines().next().is_some_and(|l| l.starts_with("cpu: ") && l.contains(" GB/s by a copy")),
        "{said}"
    );
    assert!(said.contains("a. GEMM|gemm_nn|64x64x64|f32: ") && said.contains(" with a profile ("), "{said}");
    assert!(said.lines().any(|l| l.starts_with("matmul ") && l.ends_with('%')), "{said}");
}
