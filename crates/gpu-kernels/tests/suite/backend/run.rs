//! Kernels run by the interpreter, and as PTX by a machine, with the same bits.

use super::*;

/// Runs a work whose last buffers are results (and numbers).
pub fn start(work: &Work<'_>, inputs: &[&HostData], outs: &[(DType, usize)]) -> Vec<HostData> {
    let mut buffers: Vec<Memory> = inputs.iter().map(|x| Memory::from_host(x)).collect();
    buffers.extend(outs.iter().map(|&(d, n)| Memory::of(d, n)));
    run_work(work, &mut buffers);
    let results = &buffers[inputs.len()..inputs.len() + outs.len()];
    results.iter().map(|m| m.to_host().expect("a result has a dtype")).collect()
}

/// Runs launches that follow one another; gives the results.
pub fn run_steps(all: &LaunchSequence<'_>, operands: &[&HostData]) -> Vec<Memory> {
    let operands: Vec<Memory> = operands.iter().map(|x| Memory::from_host(x)).collect();
    run_steps_on(all, operands)
}

/// The same, with operands of any kind.
pub fn run_steps_on(all: &LaunchSequence<'_>, mut operands: Vec<Memory>) -> Vec<Memory> {
    // What need not be zero is something else.
    let room = |r: &elinvar_gpu_kernels::launch::BufferSpec| {
        let word = if r.zero { 0 } else { u64::MAX >> (64 - 8 * r.elem.size()).min(63) };
        let word = if r.elem == Elem::Bool { word & 1 } else { word };
        Memory { elem: r.elem, cells: vec![word; r.len] }
    };
    let mut results: Vec<Memory> = all.results.iter().map(room).collect();
    let mut scratch: Vec<Memory> = all.scratch.iter().map(room).collect();
    for step in &all.steps {
        let mut buffers: Vec<Memory> = Vec::new();
        for slot in &step.buffers {
            buffers.push(match *slot {
                BufferSlot::Operand(i) => operands[i].clone(),
                BufferSlot::Result(i) => results[i].clone(),
                BufferSlot::Scratch(i) => scratch[i].clone(),
            });
        }
        run_work(&step.work, &mut buffers);
        for (slot, after) in step.buffers.iter().zip(buffers) {
            match *slot {
                BufferSlot::Operand(i) => operands[i] = after,
                BufferSlot::Result(i) => results[i] = after,
                BufferSlot::Scratch(i) => scratch[i] = after,
            }
        }
    }
    results
}

/// A result of a dtype.
pub(super) fn host(m: &Memory) -> HostData {
    m.to_host().expect("a result has a dtype")
}

/// Emits SPIR-V for a device that has everything, and for one without a fused fma. With
/// `ELINVAR_SPIRV_DIR` set, the modules are written there, so that `spirv-val` can look at every
/// kernel of the suite.
fn modules(kernel: &Kernel) {
    static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    // Kernels of one name differ at most in constants.
    if !SEEN.lock().expect("no thread panics while it holds the lock").insert(kernel.name.clone()) {
        return;
    }
    for (word, fused, wide) in [("fused", true, true), ("built", false, true), ("whole", false, false)] {
        let device = SpirvDevice { fused, wide, keeps_zeros: fused, ..FULL };
        match spirv::emit(kernel, &device) {
            Ok(words) => {
                if let Some(dir) = std::env::var_os("ELINVAR_SPIRV_DIR") {
                    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
                    let path = std::path::Path::new(&dir).join(format!("{}.{word}.spv", kernel.name));
                    std::fs::write(path, bytes).expect("the directory can be written to");
                }
            }
            // Factors of other types than f16, and which lane has which number, are known to one
            // target only.
            Err(e) if kernel.features().fragments && e.0.contains("which lane has which number") => {}
            Err(e) if kernel.features().fragments && e.0.contains("are not emitted as SPIR-V") => {}
            Err(e) if kernel.features().tma && e.0.contains("no TMA and wgmma") => {}
            Err(e) => panic!("{e}"),
        }
    }
}

/// The kernel after all passes. Kernels of one key must be the same: a cache keeps them by their
/// keys relies on it. The first of a key is also printed, read again and emitted.
fn optimised(key: Key, kernel: &Kernel) -> Arc<Kernel> {
    static SEEN: Mutex<BTreeMap<Key, (Kernel, Arc<Kernel>)>> = Mutex::new(BTreeMap::new());
    let known = SEEN.lock().expect("no thread panics while it holds the lock").get(&key).cloned();
    if let Some((known, better)) = known {
        assert!(known == *kernel, "{} and {} have one key", known.name, kernel.name);
        return better;
    }
    let printed = text::print(kernel);
    let read = text::parse(&printed).unwrap_or_else(|e| panic!("{e}\n{printed}"));
    assert!(read == *kernel, "reading what was printed gives another kernel:\n{printed}");
    modules(kernel);
    let mut better = kernel.clone();
    pass::optimize(&mut better);
    let better = Arc::new(better);
    SEEN.lock()
        .expect("no thread panics while it holds the lock")
        .insert(key, (kernel.clone(), better.clone()));
    better
}

/// Runs a kernel's PTX on a machine for it, the first time that the kernel is met and if it is
/// small: the same bits.
fn as_ptx(kernel: &Kernel, launch: &Launch, mut buffers: Vec<Memory>, want: &[Memory]) {
    static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let threads: u64 =
        launch.groups.iter().map(|&n| u64::from(n)).product::<u64>() * u64::from(kernel.invocations());
    let new =
        |name: &str| SEEN.lock().expect("no thread panics while it holds the lock").insert(name.to_string());
    if threads > 4096 || kernel.subgroup.is_some_and(|lanes| lanes != 32) || !new(&kernel.name) {
        return;
    }
    let text = ptx::emit(kernel, ptx::target(kernel, 90)).unwrap_or_else(|e| panic!("{e}"));
    ptx_machine::run(kernel, &text, launch, &mut buffers);
    for (i, (got, want)) in buffers.iter().zip(want).enumerate() {
        let bad = (0..want.cells.len())
            .find(|&i| got.cells[i] != want.cells[i] && !(got.is_nan(i) && want.is_nan(i)));
        assert!(
            bad.is_none(),
            "{}: buffer {i}, element {bad:?} as PTX\n{}\n{text}",
            kernel.name,
            text::print(kernel)
        );
    }
}

/// Runs a work on buffers, as it was built and again after all passes.
pub fn run_work(work: &Work<'_>, buffers: &mut Vec<Memory>) {
    let kernel = &work.kernel();
    let better = optimised(work.key, kernel);
    if let Some(numbers) = &work.args {
        let elem = kernel.buffers.last().expect("numbers have a buffer").elem;
        buffers.push(Memory { elem, cells: numbers.iter().map(|c: &Constant| c.bits).collect() });
    }
    let (mut again, before) = (buffers.clone(), buffers.clone());
    run(kernel, &work.launch, buffers).unwrap_or_else(|e| panic!("{e}\n{}", text::print(kernel)));
    run(&better, &work.launch, &mut again).unwrap_or_else(|e| panic!("{e}\n{}", text::print(&better)));
    assert!(again == *buffers, "passes changed bits\n{}\n{}", text::print(kernel), text::print(&better));
    crate::msl::record(kernel, &work.launch, &before, buffers);
    crate::wgsl::as_wgsl(kernel, &work.launch, &before, buffers);
    crate::llvm::as_llvm(kernel, &work.launch, &before, buffers);
    as_ptx(kernel, &work.launch, before, buffers);
}
