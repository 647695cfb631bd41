//! Several processes that share a training: one hash for any number of them, and what is told when
//! one dies or does not belong.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

fn program(args: &[&str], dir: &Path) -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_elinvar"));
    c.args(args).current_dir(dir).env("ELINVAR_TIME_LIMIT", "60").env("ELINVAR_THREADS", "1");
    c.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    c
}

const TRAIN: [&str; 10] =
    ["train", "digits", "--epochs", "1", "--batch", "64", "--seed", "5", "--shards", "8"];

fn train(more: &[&'static str]) -> Vec<&'static str> {
    [&TRAIN[..], more].concat()
}

fn hash(o: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&o.stdout), String::from_utf8_lossy(&o.stderr));
    assert!(o.status.success(), "{out}{err}");
    let mut found = out.lines().filter(|l| l.starts_with("weights sha256 "));
    let hash = found.next().unwrap_or_else(|| panic!("{out}{err}")).to_owned();
    assert_eq!(found.next(), None, "one worker tells: {out}");
    assert!(hash.ends_with(" (8 gradient shards)"), "{hash}");
    hash
}

fn alone(dir: &Path) -> String {
    hash(&program(&train(&["--quiet", "--out", "alone"]), dir).output().unwrap())
}

/// Workers that meet on this machine, as torchrun starts them; `args` by rank.
fn start(workers: usize, dir: &Path, args: impl Fn(usize) -> Vec<&'static str>) -> Vec<Child> {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let one = |rank: usize| {
        let mut c = program(&args(rank), dir);
        c.env("RANK", rank.to_string()).env("WORLD_SIZE", workers.to_string());
        c.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", &port).spawn().unwrap()
    };
    (0..workers).map(one).collect()
}

fn ended(children: Vec<Child>) -> Vec<(Option<i32>, String)> {
    let one = |c: Child| {
        let o = c.wait_with_output().unwrap();
        (o.status.code(), String::from_utf8_lossy(&o.stderr).into_owned())
    };
    children.into_iter().map(one).collect()
}

#[test]
fn one_hash_for_any_number_of_workers() {
    let dir = tempfile::tempdir().unwrap();
    let want = alone(dir.path());
    for n in ["2", "4"] {
        let args = [&["launch", "-n", n, "--"][..], &train(&["--out", "many"])].concat();
        let o = program(&args, dir.path()).output().unwrap();
        assert_eq!(hash(&o), want, "{n} workers");
        let told = String::from_utf8_lossy(&o.stderr);
        let sent = told.lines().find(|l| l.starts_with(&format!("{n} workers (TCP"))).expect(&told);
        assert!(sent.contains("8 gradient shards") && sent.contains("bytes in"), "{sent}");
        for name in ["weights.safetensors", "metrics.jsonl", "curve.svg", "wrong.svg"] {
            let file = |run: &str| std::fs::read(dir.path().join(run).join(name)).expect(name);
            assert!(file("many") == file("alone"), "{name} differs");
        }
    }
    let zero = train(&["--quiet", "--zero1", "--bucket-bytes", "4096", "--out", "zero"]);
    let zero = [&["launch", "-n", "3", "--"][..], &zero].concat();
    assert_eq!(hash(&program(&zero, dir.path()).output().unwrap()), want, "parted states");
    // Devices of one process.
    let args = train(&["--quiet", "--out", "devices", "--device", "cpu,cpu,cpu"]);
    assert_eq!(hash(&program(&args, dir.path()).output().unwrap()), want);
}

/// How often a worker is killed.
fn kills() -> usize {
    let text = std::env::var("ELINVAR_TEST_KILLS");
    text.map_or(3, |n| n.parse().expect("ELINVAR_TEST_KILLS is a number"))
}

/// A worker is killed, another number of workers goes on.
#[test]
fn a_worker_that_is_killed_ends_the_others_and_nothing_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let want = alone(dir.path());
    for k in 0..kills() {
        // Each of the three among the first three kills; the same on every run of the test.
        let number = (k as u64 + 3).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let (victim, delay) = ((number >> 40) as usize % 3, (number >> 20) % 60);
        let out: &'static str = format!("run{k}").leak();
        let args = || train(&["--quiet", "--checkpoint-steps", "1", "--out", out]);
        let mut workers = start(3, dir.path(), |_| args());
        let file = dir.path().join(out).join("checkpoint.safetensors");
        let begin = Instant::now();
        while !file.exists() && begin.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(delay));
        workers[victim].kill().unwrap();
        let since = Instant::now();
        for (rank, (code, said)) in ended(workers).into_iter().enumerate() {
            if rank != victim {
                assert_eq!(code, Some(1), "worker {rank}: {said}");
                let told = said.lines().count() == 1 && said.starts_with("elinvar: distributed: worker ");
                assert!(told, "worker {rank}: {said}");
            }
        }
        assert!(since.elapsed() < Duration::from_secs(30));
        let n = ["1", "2", "4"][k % 3];
        let resume = ["launch", "-n", n, "--", "train", "digits", "--quiet", "--resume", "--out", out];
        assert_eq!(hash(&program(&resume, dir.path()).output().unwrap()), want, "{out}");
    }
}

/// The launcher ends all workers and says which one was the first.
#[cfg(target_os = "linux")]
#[test]
fn the_launcher_ends_what_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["launch", "-n", "3", "--", "train", "digits", "--epochs", "400", "--shards", "4", "--quiet"];
    let launcher = program(&args, dir.path()).spawn().unwrap();
    let file = PathBuf::from(format!("/proc/{0}/task/{0}/children", launcher.id()));
    let (metrics, begin) = (dir.path().join("out/digits-mlp/metrics.jsonl"), Instant::now());
    while std::fs::metadata(&metrics).map_or(0, |m| m.len()) == 0 && begin.elapsed() < Duration::from_secs(60)
    {
        thread::sleep(Duration::from_millis(20));
    }
    let text = std::fs::read_to_string(file).unwrap();
    let workers: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(workers.len(), 3, "{text}");
    let since = Instant::now();
    assert!(Command::new("kill").args(["-9", workers[2]]).status().unwrap().success());
    let o = launcher.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&o.stderr);
    assert_eq!(o.status.code(), Some(1), "{said}");
    assert!(said.contains("launch: worker 2 of 3 ended with signal: 9"), "{said}");
    assert!(said.contains("worker 2 has ended in the middle of the run"), "{said}");
    assert!(since.elapsed() < Duration::from_secs(30));
    for pid in workers {
        assert!(!Path::new("/proc").join(pid).exists(), "worker {pid} is left");
    }
}

#[test]
fn workers_that_do_not_belong_together_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let rows: [(&str, fn(usize) -> Vec<&'static str>); 4] = [
        ("worker 1 has another set of settings than worker 0", |rank| {
            train(&["--quiet", "--model", ["mlp", "cnn"][rank]])
        }),
        ("worker 1 has another set of settings than worker 0", |rank| {
            let shards = ["8", "4"][rank];
            vec!["train", "digits", "--quiet", "--shards", shards]
        }),
        ("2 workers share 1 gradient shards; there must be a shard for each", |_| {
            vec!["train", "digits", "--quiet"]
        }),
        // One of them is another program.
        ("worker 1 has ended in the middle of the run", |rank| match rank {
            0 => train(&["--quiet"]),
            _ => train(&["--quiet", "--device", "cuda:77"]),
        }),
    ];
    for (sentence, args) in rows {
        let all = ended(start(2, dir.path(), args));
        assert!(all.iter().all(|(code, said)| *code == Some(1) && said.lines().count() == 1), "{all:?}");
        assert!(all.iter().any(|(_, said)| said.contains(sentence)), "{sentence}: {all:?}");
    }
    // Of the devices of a process, too; the cause is told.
    let args = [&train(&["--quiet"])[..], &["--device", "cpu,cuda:77"]].concat();
    let o = program(&args, dir.path()).output().unwrap();
    let said = String::from_utf8_lossy(&o.stderr);
    assert!(o.status.code() == Some(1) && said.contains("cuda: "), "{said}");
}

/// The same hash under an MPI library, if there is one with its launcher.
#[test]
fn one_hash_under_mpi() {
    let launcher = std::env::var("MPIRUN").unwrap_or_else(|_| "mpirun".into());
    if !Command::new(&launcher).arg("--version").output().is_ok_and(|o| o.status.success()) {
        println!("SKIPPED: no {launcher}; Debian's package openmpi-bin has one");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let want = alone(dir.path());
    let mut mpi = Command::new(&launcher);
    mpi.args(["-n", "2", env!("CARGO_BIN_EXE_elinvar")]).args(train(&["--quiet", "--out", "mpi"]));
    mpi.current_dir(dir.path()).env("ELINVAR_THREADS", "1").env("ELINVAR_TIME_LIMIT", "60");
    mpi.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    assert_eq!(hash(&mpi.stdin(Stdio::null()).output().unwrap()), want);
}
