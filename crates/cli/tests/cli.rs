//! The program as a user meets it: exit status, standard output, standard error, files.

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn elinvar(args: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_elinvar"))
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
    let rows: Vec<(&[&str], &str)> = vec![
        (&[], "Usage: elinvar <COMMAND>"),
        (&["tain"], "unrecognized subcommand 'tain'"),
        (&["conformance"], "unrecognized subcommand 'conformance'"),
        (&["train"], "Usage: elinvar train <COMMAND>"),
        (&["train", "letters"], "unrecognized subcommand 'letters'"),
        (&["train", "digits", "--model", "rnn"], "possible values: mlp, cnn, transformer"),
        (&["train", "digits", "--checkpoint-steps", "0"], "0 is not in 1.."),
        (&["train", "text"], "<FILE>"),
        (&["train", "text", "f", "--vocab", "255"], "255 is not in 256..=65536"),
        (&["train", "text", "f", "--dropout", "1"], "0 or more and less than 1"),
        (&["generate", "d", "--temperature", "-1"], "it must be 0 or a positive number"),
        (&["generate", "d", "--top-p", "1.5"], "above 0 and up to 1"),
        (&["embed"], "<MODEL>"),
        (&["train", "digits", "--epochs", "0"], "0 is not in 1.."),
        (&["train", "digits", "--batch", "0"], "0 is not in 1.."),
        (&["train", "digits", "--lr", "-1"], "invalid value '-1'"),
        (&["train", "digits", "--lr=nan"], "it must be a positive number"),
        (&["train", "digits", "--seed", "x"], "invalid value 'x'"),
        (&["completions", "cmd"], "possible values: bash"),
    ];
    for (args, sentence) in rows {
        let o = elinvar(args, dir.path());
        assert_eq!(o.status.code(), Some(2), "{args:?}: {}", stderr(&o));
        assert!(stderr(&o).contains(sentence), "{args:?}: {}", stderr(&o));
        assert!(o.stdout.is_empty(), "{args:?}: {}", stdout(&o));
    }
}

/// What goes wrong is told in one line, with status 1, and before any work is done.
#[test]
fn what_fails_is_told_in_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "text").unwrap();
    let rows: [(&[&str], &str); 6] = [
        (&["train", "digits", "--device", "abacus"], "there is no device called \"abacus\""),
        (&["train", "digits", "--out", "file"], "file: this directory cannot be created, for file is a file"),
        (
            &["train", "digits", "--out", "file/out"],
            "file/out: this directory cannot be created, for file is a file",
        ),
        (&["eval", "missing.safetensors"], "missing.safetensors: No such file or directory"),
        (&["eval", "file"], "file: 4 bytes are no safetensors file"),
        (&["eval", "file", "--device", "abacus"], "there is no device called \"abacus\""),
    ];
    for (args, sentence) in rows {
        let o = elinvar(args, dir.path());
        let text = stderr(&o);
        assert_eq!(o.status.code(), Some(1), "{args:?}: {text}");
        assert!(text.starts_with("elinvar: ") && text.contains(sentence), "{args:?}: {text}");
        assert!(text.ends_with('\n') && text.lines().count() == 1, "{args:?}: {text}");
        assert!(o.stdout.is_empty(), "{args:?}: {}", stdout(&o));
    }
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 1, "nothing new: {left:?}");
}

#[test]
fn help_and_version_go_to_standard_output() {
    let dir = tempfile::tempdir().unwrap();
    for (args, text) in [
        (&["--help"][..], "Commands:"),
        (&["train", "digits", "--help"], "--epochs <EPOCHS>"),
        (&["train", "text", "--help"], "--vocab <VOCAB>"),
        (&["--version"], concat!("elinvar ", env!("CARGO_PKG_VERSION"))),
    ] {
        let o = elinvar(args, dir.path());
        assert!(o.status.success() && stdout(&o).contains(text) && o.stderr.is_empty(), "{args:?}: {o:?}");
    }
}

#[test]
fn completions_for_every_shell() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let o = elinvar(&["completions", shell], dir.path());
        assert!(o.status.success() && o.stderr.is_empty(), "{shell}: {}", stderr(&o));
        assert!(stdout(&o).contains("inspect") && stdout(&o).contains("epochs"), "{shell}");
    }
}

#[test]
fn the_reference_device_is_listed_as_exact() {
    let dir = tempfile::tempdir().unwrap();
    let o = elinvar(&["devices"], dir.path());
    assert!(o.status.success(), "{}", stderr(&o));
    let line = stdout(&o).lines().find(|l| l.starts_with("reference ")).expect("a line for the reference");
    assert_eq!(line.split_whitespace().nth(1), Some("exact"));
}

/// A reader that stops early, such as `head`, is no error.
#[test]
fn a_reader_may_stop_early() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_elinvar"))
        .args(["completions", "zsh"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let o = child.wait_with_output().unwrap();
    assert!(o.status.success() && o.stderr.is_empty(), "{o:?}");
}

/// One short training: its files, its last two lines, and that the same seed gives the same bits.
#[test]
fn training_is_repeatable_and_eval_agrees() {
    let dir = tempfile::tempdir().unwrap();
    let train = |seed: &str, out: &str, more: &[&str]| {
        let args =
            ["train", "digits", "--epochs", "1", "--batch", "128", "--seed", seed, "--out", out, "--quiet"];
        let o = elinvar(&[&args, more].concat(), dir.path());
        assert!(o.status.success() && o.stderr.is_empty(), "{}", stderr(&o));
        stdout(&o).lines().rev().take(2).map(str::to_string).collect::<Vec<_>>()
    };
    let a = train("3", "a", &[]);
    let (accuracy, hash) = (&a[1], &a[0]);
    let percent = accuracy.strip_prefix("test accuracy ").and_then(|t| t.strip_suffix(" %")).expect(accuracy);
    assert!(percent.parse::<f64>().is_ok_and(|p| (20.0..=100.0).contains(&p)), "{accuracy}");
    assert_eq!(percent.split_once('.').expect("a decimal point").1.len(), 2, "{accuracy}");
    let digits = hash.strip_prefix("weights sha256 ").expect(hash);
    assert!(
        digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase()),
        "{hash}"
    );

    assert_eq!(train("3", "b", &["--capture"]), a, "the same seed");
    assert_ne!(train("4", "c", &[])[0], *hash, "another seed");
    let file = |run: &str, name: &str| std::fs::read(dir.path().join(run).join(name)).expect(name);
    for name in ["weights.safetensors", "metrics.jsonl", "curve.svg", "wrong.svg"] {
        assert_eq!(file("a", name), file("b", name), "{name}");
    }
    assert!(file("a", "curve.svg").starts_with(b"<svg") && file("a", "wrong.svg").starts_with(b"<svg"));
    let metrics = String::from_utf8(file("a", "metrics.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> = metrics.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    // 1437 images make 12 steps of 128; then the epoch.
    assert_eq!(lines.len(), 13);
    assert!(lines[..12].iter().all(|l| l["loss"].is_f64()) && lines[12]["test_accuracy"].is_f64());

    let o = elinvar(&["eval", "a/weights.safetensors"], dir.path());
    assert_eq!(stdout(&o), format!("{accuracy}\n{hash}\n"), "{}", stderr(&o));
    let o = elinvar(&["eval", "a/weights.safetensors", "--model", "cnn"], dir.path());
    assert_eq!(o.status.code(), Some(1));
    assert!(stderr(&o).starts_with("elinvar: a/weights.safetensors: load_state_dict: "), "{}", stderr(&o));
}

/// Progress goes to standard error, so that standard output can be used.
#[test]
fn progress_is_a_line_per_epoch_where_there_is_no_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let o = elinvar(&["train", "digits", "--epochs", "2", "--batch", "512"], dir.path());
    assert!(o.status.success(), "{}", stderr(&o));
    let lines: Vec<_> = stderr(&o).lines().collect();
    assert!(lines.len() == 2 && lines[1].starts_with("epoch 2/2  loss "), "{lines:?}");
    assert!(dir.path().join("out/digits-mlp/curve.svg").is_file());
    assert_eq!(stdout(&o).lines().count(), 3);
}

/// A training whose loss is lost says so, and leaves no weights.
#[test]
fn a_training_that_diverges_fails() {
    let dir = tempfile::tempdir().unwrap();
    let o =
        elinvar(&["train", "digits", "--epochs", "2", "--lr", "1e300", "--out", "o", "--quiet"], dir.path());
    assert_eq!(o.status.code(), Some(1), "{}", stdout(&o));
    assert!(stderr(&o).starts_with("elinvar: ") && stderr(&o).lines().count() == 1, "{}", stderr(&o));
    assert!(!dir.path().join("o/weights.safetensors").exists());
}

/// What `train text` prints of a small text in `cat.txt`.
#[cfg(feature = "tokenizers")]
fn train_text(dir: &Path, more: &[&str]) -> Vec<String> {
    let text = "the cat sat on the mat, and the dog sat on the cat. ".repeat(30);
    std::fs::write(dir.join("cat.txt"), text).unwrap();
    let args = [&["train", "text", "cat.txt", "--quiet"], more].concat();
    let o = elinvar(&args, dir);
    assert!(o.status.success() && o.stderr.is_empty(), "{args:?} {}", stderr(&o));
    stdout(&o).lines().map(str::to_owned).collect()
}

/// In 16 bits a text is learnt as well as in f32, with other weights.
#[cfg(feature = "tokenizers")]
#[test]
fn a_text_is_learnt_in_16_bits() {
    let dir = tempfile::tempdir().unwrap();
    let learnt = |amp: &str| {
        let settings = ["--vocab", "256", "--width", "8", "--heads", "2", "--layers", "1", "--context", "8"];
        let told = train_text(
            dir.path(),
            &[&settings[..], &["--steps", "60", "--sample", "0", "--amp", amp, "--out", amp]].concat(),
        );
        let [loss, hash] = &told[told.len() - 2..] else { unreachable!() };
        let loss = loss.strip_prefix("test loss ").and_then(|l| l.strip_suffix(" nats per token"));
        (loss.expect("a loss").parse::<f64>().unwrap(), hash.clone())
    };
    let (want, plain) = learnt("off");
    // Of bytes drawn alike it is ln 256, which is 5.5.
    assert!(want < 4.5, "{want}");
    for half in ["bf16", "f16"] {
        let (loss, hash) = learnt(half);
        assert!((loss - want).abs() <= 0.01 * want && hash != plain, "{half}: {loss}, f32: {want}");
    }
}

/// A text is learnt, a stopped run goes on, and the directory that comes out writes.
#[cfg(feature = "tokenizers")]
#[test]
fn a_text_is_learnt_and_written_on() {
    let dir = tempfile::tempdir().unwrap();
    let settings = ["--vocab", "260", "--width", "8", "--heads", "2", "--layers", "1", "--context", "8"];
    let train = |more: &[&str]| train_text(dir.path(), more);
    let whole = train(&[&settings[..], &["--steps", "6", "--out", "whole", "--sample", "10"]].concat());
    assert_eq!(whole[0], "whole: config.json model.safetensors tokenizer.json metrics.jsonl curve.svg");
    assert!(whole[2].starts_with("the cat sat on the m"), "{whole:?}");
    let [loss, hash] = &whole[whole.len() - 2..] else { unreachable!() };
    assert!(loss.starts_with("test loss ") && loss.ends_with(" nats per token"), "{loss}");
    assert!(hash.starts_with("weights sha256 "));

    // From a checkpoint half-way, made by a run that was told to stop there by nothing but its
    // copy.
    let made =
        train(&[&settings[..], &["--steps", "6", "--out", "made", "--sample", "0", "--capture"]].concat());
    assert_eq!(made.last(), whole.last());
    let again = train(&["--resume", "--out", "made", "--sample", "0"]);
    assert_eq!(again.last(), whole.last(), "nothing is left to do");
    let o = elinvar(&["train", "text", "cat.txt", "--resume", "--out", "made", "--width", "9"], dir.path());
    assert_eq!(o.status.code(), Some(1));
    assert!(stderr(&o).contains("this training began with width 8, and not with 9"), "{}", stderr(&o));
    std::fs::write(dir.path().join("dog.txt"), "another text ".repeat(50)).unwrap();
    let o = elinvar(&["train", "text", "dog.txt", "--resume", "--out", "made"], dir.path());
    assert!(stderr(&o).contains("is not one on the text of dog.txt"), "{}", stderr(&o));

    let write = |args: &[&str]| {
        let o = elinvar(
            &[&["generate", "whole", "--tokens", "12", "--prompt", "the "], args].concat(),
            dir.path(),
        );
        assert!(o.status.success() && o.stderr.is_empty(), "{}", stderr(&o));
        stdout(&o).to_owned()
    };
    let greedy = write(&["--temperature", "0"]);
    assert!(greedy.starts_with("the ") && greedy.len() > 10, "{greedy}");
    assert_eq!(write(&["--temperature", "0"]), greedy);
    assert_eq!(write(&["--top-k", "1"]), greedy, "the likeliest alone");
    assert_eq!(write(&["--sample-seed", "1"]), write(&["--sample-seed", "1"]));
    assert_ne!(
        write(&["--temperature", "5", "--sample-seed", "1"]),
        write(&["--temperature", "5", "--sample-seed", "2"])
    );

    let o = elinvar(&["inspect", "whole"], dir.path());
    assert!(
        o.status.success() && stdout(&o).contains("transformer.wte.weight"),
        "{}{}",
        stdout(&o),
        stderr(&o)
    );
    let o = elinvar(&["embed", "whole", "a sentence"], dir.path());
    assert!(o.status.code() == Some(1) && stderr(&o).contains("model_type is \"gpt2\""), "{}", stderr(&o));
}

#[cfg(feature = "tokenizers")]
#[test]
fn texts_and_models_that_cannot_be_read_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).unwrap();
    put("empty", b"");
    put("latin1", b"caf\xe9");
    put("short", b"too short");
    std::fs::create_dir(dir.path().join("dir")).unwrap();
    put("dir/config.json", b"{\"model_type\": \"t5\"}");
    let rows: [(&[&str], &str); 8] = [
        (&["train", "text", "missing"], "missing: No such file"),
        (&["train", "text", "empty", "--out", "o"], "empty: text: it is empty"),
        (&["train", "text", "latin1", "--out", "o"], "latin1: text: not UTF-8 at byte 3"),
        (&["train", "text", "short", "--out", "o"], "short: tokens: "),
        (
            &["train", "text", "short", "--out", "o", "--width", "10", "--heads", "3", "--context", "2"],
            "n_head",
        ),
        (&["generate", "missing"], "missing/config.json: No such file"),
        (&["generate", "dir"], "a model of type \"t5\" does not write"),
        (&["embed", "dir", "x"], "model_type is \"t5\""),
    ];
    for (args, sentence) in rows {
        let o = elinvar(args, dir.path());
        let text = stderr(&o);
        assert_eq!(o.status.code(), Some(1), "{args:?}: {text}");
        assert!(text.starts_with("elinvar: ") && text.contains(sentence), "{args:?}: {text}");
        assert!(text.ends_with('\n') && text.lines().count() == 1, "{args:?}: {text}");
    }
}

/// `ELINVAR_PROFILE` names the file of a trace, which is written at the end.
#[test]
fn a_trace_is_written_where_the_environment_asks_for_one() {
    let dir = tempfile::tempdir().unwrap();
    let run = |trace: &str| {
        Command::new(env!("CARGO_BIN_EXE_elinvar"))
            .args([
                "train", "digits", "--quiet", "--model", "mlp", "--epochs", "1", "--batch", "512", "--out",
                "out",
            ])
            .env("ELINVAR_PROFILE", trace)
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .output()
            .expect("the program starts")
    };
    let o = run("trace.json");
    assert!(o.status.success(), "{}", stderr(&o));
    let text = std::fs::read_to_string(dir.path().join("trace.json")).unwrap();
    let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    for (category, name) in [
        ("span", "training step"),
        ("span", "batch"),
        ("span", "backward"),
        ("span", "optimiser step"),
        ("op", "linear"),
        ("gradient", "linear"),
        ("work", "contract"),
    ] {
        assert!(events.iter().any(|e| e["cat"] == category && e["name"] == name), "{category} {name}");
    }
    // A file that cannot be written is an error, though the command's work is done.
    let o = run("missing/trace.json");
    assert_eq!(o.status.code(), Some(1), "{}", stderr(&o));
    assert!(stderr(&o).contains("missing/trace.json"), "{}", stderr(&o));
    assert!(dir.path().join("out").exists());
}
