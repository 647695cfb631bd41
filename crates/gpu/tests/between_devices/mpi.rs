//! By an MPI library that takes addresses of CUDA devices: a stand-in, over Open MPI, which its
//! launcher starts. A device that is not waited for would show as another hash: see the stand-in.

use super::{ONLY_WORKER, hash_alone, worker_does};
use std::env;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

type Variables<'v> = &'v [(&'v str, &'v str)];

/// Open MPI's launcher, if it is installed.
fn launcher() -> Option<&'static str> {
    static LAUNCHER: OnceLock<Option<String>> = OnceLock::new();
    let find = || {
        let launcher = env::var("MPIRUN").unwrap_or_else(|_| "mpirun".into());
        let version = Command::new(&launcher).arg("--version").output();
        let is_there = version.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains("Open MPI"));
        is_there.then_some(launcher)
    };
    let found = LAUNCHER.get_or_init(find).as_deref();
    if found.is_none() {
        println!("SKIPPED: no mpirun of Open MPI; Debian's package openmpi-bin has one");
    }
    found
}

/// What workers say, one for each of these sets of variables, and how their launcher ends. All have
/// `common`.
fn run(
    launcher: &str,
    role: &str,
    common: Variables<'_>,
    each: &[Variables<'_>],
) -> (Option<i32>, Vec<String>) {
    let mut mpi = Command::new(launcher);
    let program = env::current_exe().unwrap();
    for (rank, variables) in each.iter().enumerate() {
        if rank > 0 {
            mpi.arg(":");
        }
        mpi.args(["-n", "1"]);
        for (name, value) in *variables {
            mpi.args(["-x", &format!("{name}={value}")]);
        }
        mpi.arg(&program).args(ONLY_WORKER);
    }
    mpi.envs(worker_does(role)).env("ELINVAR_CUDA_POOLS", "0").envs(common.iter().copied());
    mpi.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    mpi.env("OMPI_MCA_rmaps_base_oversubscribe", "1").env("OMPI_MCA_hwloc_base_binding_policy", "none");
    let o = mpi.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&o.stdout);
    let said = ["SAID ", "ERROR "].iter().flat_map(|word| text.match_indices(word));
    let said: Vec<String> = said.filter_map(|(at, _)| text[at..].lines().next()).map(str::to_owned).collect();
    if said.is_empty() {
        return (o.status.code(), vec![format!("{text}{}", String::from_utf8_lossy(&o.stderr))]);
    }
    (o.status.code(), said)
}

const NONE: Variables<'_> = &[];
const ASKED: (&str, &str) = ("ELINVAR_MPI_CUDA", "1");
const WITHOUT_NCCL: (&str, &str) = ("ELINVAR_NCCL", "0");

#[test]
fn one_hash_by_mpi() {
    let Some(launcher) = launcher() else { return };
    let trained = |common: Variables<'_>, each: &[Variables<'_>]| {
        let (code, said) = run(launcher, "train", common, each);
        assert!(code == Some(0) && said.len() == each.len(), "{code:?} {said:?}");
        assert!(said.iter().all(|one| *one == said[0]), "{said:?}");
        said[0].clone()
    };
    let hash = hash_alone();
    assert_eq!(trained(&[ASKED], &[NONE; 2]), format!("{hash} by MPI"));
    assert_eq!(trained(&[WITHOUT_NCCL], &[NONE; 4]), format!("{hash} by MPI"));
    // One that does not allow it goes the same way as all others.
    let one_without: [Variables<'_>; 2] = [&[], &[("ELINVAR_MPI_CUDA", "0")]];
    assert_eq!(trained(&[WITHOUT_NCCL], &one_without), format!("{hash} through the host"));
}

#[test]
fn all_calls_by_mpi() {
    let Some(launcher) = launcher() else { return };
    let (code, said) = run(launcher, "sum", &[ASKED], &[NONE; 3]);
    assert_eq!((code, said), (Some(0), vec!["SAID by MPI".to_owned(); 3]));
}

/// Was Open MPI made without CUDA, as Debian's is?
fn is_without_cuda() -> bool {
    let o = Command::new("ompi_info").args(["--parsable", "--level", "9", "--all"]).output();
    o.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains("mpi_built_with_cuda_support:value:false"))
}

#[test]
fn what_is_asked_for_and_cannot_be_is_told() {
    let Some(launcher) = launcher() else { return };
    let unaware = ("ELINVAR_EMULATED_MPI", "unaware");
    let check = |sentences: &[&str], common: Variables<'_>, each: [Variables<'_>; 2]| {
        let (code, said) = run(launcher, "sum", common, &each);
        // The launcher ends those that are left once one has ended, so not all may be heard.
        let is_known = |one: &String| one.starts_with("ERROR ") && sentences.iter().any(|s| one.contains(s));
        assert!(code == Some(1) && said.iter().all(is_known), "{sentences:?}: {code:?} {said:?}");
    };
    let takes_none = "says that it takes no addresses of CUDA devices";
    check(&[takes_none], &[ASKED, unaware], [&[]; 2]);
    check(&[takes_none, "worker 1 cannot use it; it tells why"], &[], [&[ASKED], &[unaware]]);
    let pools = "ELINVAR_CUDA_POOLS=0 allocates other memory";
    check(&[pools], &[ASKED, ("ELINVAR_CUDA_POOLS", "1")], [&[]; 2]);
    let both = "worker 1 has ELINVAR_NCCL=1 and worker 0 ELINVAR_MPI_CUDA=1";
    check(&[both], &[], [&[ASKED], &[("ELINVAR_NCCL", "1")]]);
    if is_without_cuda() {
        check(&[takes_none], &[ASKED, ("ELINVAR_MPI_LIBRARY", "libmpi.so.40")], [&[]; 2]);
    }
}

#[test]
fn what_does_not_come_or_is_cut_short_is_told() {
    let Some(launcher) = launcher() else { return };
    let since = Instant::now();
    let rows = [
        ("silent", "within the time limit"),
        ("short", "sends 11 bytes of its device where 12 are expected"),
    ];
    for (how, sentence) in rows {
        let other: [Variables<'_>; 2] = [&[], &[("ELINVAR_EMULATED_MPI", how)]];
        let (code, said) = run(launcher, "sum", &[ASKED, ("ELINVAR_TIME_LIMIT", "3")], &other);
        assert!(code == Some(1) && said.iter().any(|one| one.contains(sentence)), "{how}: {code:?} {said:?}");
    }
    assert!(since.elapsed() < Duration::from_secs(60), "{:?}", since.elapsed());
}
