//! What is around a function: shared memory, parameters, attributes.

use super::ARCHS;
use super::cursor::{Cursor, File, Ty};
use super::decode::Decoder;
use super::lifetime::Lifetimes;
use super::names::Named;
use crate::settings::LDS;
use emulated_gpu::inst::Inst;
use emulated_gpu::program::{Param, Program};

/// The attributes without which numbers could be others.
const EXACT: [&str; 2] = ["\"denormal-fp-math\"=\"ieee,ieee\"", "\"denormal-fp-math-f32\"=\"ieee,ieee\""];

/// What is found around the lines of the function.
#[derive(Default)]
struct Outside<'a> {
    entry: Option<&'a str>,
    /// The lines of its body, and the number of the first.
    body: Option<(usize, Vec<&'a str>)>,
    params: Vec<&'a str>,
    attributes: Option<&'a str>,
    group: Option<[u32; 3]>,
    triple: bool,
}

/// Decodes a text. See [`super::parse`].
pub fn program<'a>(text: &'a str, arch: &'a str) -> Result<Program, String> {
    let plain = arch.split(':').next().unwrap_or(arch);
    let Some((_, own)) = ARCHS.iter().find(|(name, _)| *name == plain) else {
        return Err(format!("{arch} is not emulated"));
    };
    let bpermute = if *own == 64 { 64 } else { 32 };
    let mut d = Decoder::new(plain, bpermute);
    let mut shared = 0;
    let outside = outside(text, &mut d, &mut shared)?;
    if !outside.triple {
        return Err("there is no target triple".into());
    }
    let entry = outside.entry.ok_or("there is no kernel")?;
    let (first, body) = outside.body.ok_or("the kernel has no end")?;
    let group = outside.group.ok_or("there is no size of workgroups")?;
    let threads: u64 = group.iter().map(|&n| u64::from(n)).product();
    if threads == 0 || threads > 1024 {
        return Err(format!("a workgroup of {threads} invocations"));
    }
    if shared > LDS as usize {
        return Err(format!("{shared} bytes of LDS, and there are {LDS}"));
    }
    let lanes = wave(outside.attributes.ok_or("there are no attributes")?, threads, *own)?;
    d.wave = lanes;
    let (mut params, mut param_bytes) = (Vec::new(), 0usize);
    for line in &outside.params {
        let mut c = Cursor::new(line);
        let ty = c.ty()?;
        c.takes("noalias");
        c.takes("readonly");
        let name = c.word();
        c.takes(",");
        c.ends()?;
        let (size, column) = (usize::from(ty.bytes()), d.names.lasting(ty.file()));
        let offset = param_bytes.next_multiple_of(size);
        d.names.set(name, Named::One(ty, column))?;
        params.push(Param { offset, size, column });
        param_bytes = offset + size;
    }
    d.life = Lifetimes::of(&body)?;
    for (n, &line) in body.iter().enumerate() {
        let next = body.get(n + 1).copied().unwrap_or("");
        d.number = (first + n) as u32;
        d.line(n, line, next).map_err(|why| format!("line {}: {why}: {line}", first + n + 1))?;
    }
    d.link()?;
    d.push(Inst::Return);
    let columns = |f| d.names.columns.get(&f).copied().unwrap_or(0) as usize;
    let constants = |f: File| d.names.constants.iter().filter(move |((g, _), _)| *g == f);
    Ok(Program {
        entry: entry.to_string(),
        lanes,
        group,
        narrow: columns(File::Narrow),
        wide: columns(File::Wide),
        predicates: columns(File::Predicate),
        constants32: constants(File::Narrow).map(|((_, bits), &c)| (c, *bits as u32)).collect(),
        constants64: constants(File::Wide).map(|((_, bits), &c)| (c, *bits)).collect(),
        constants1: constants(File::Predicate).map(|((_, bits), &c)| (c, *bits != 0)).collect(),
        specials: d.specials,
        params,
        blobs: 0,
        param_bytes,
        shared,
        dynamic: false,
        granule: d.granule,
        backwards: false,
        open_conversions: true,
        insts: d.insts,
        lines: d.lines,
        lists: d.lists,
        text: text.to_string(),
    })
}

fn outside<'a>(text: &'a str, d: &mut Decoder<'a>, shared: &mut usize) -> Result<Outside<'a>, String> {
    let mut o = Outside::default();
    let mut lines = text.lines().enumerate();
    while let Some((n, whole)) = lines.next() {
        let line = whole.trim();
        let refuse = |why: &str| format!("line {}: {why}: {line}", n + 1);
        if line.is_empty()
            || line.starts_with([';', '}'])
            || line.starts_with("declare ")
            || line == "!0 = !{}"
        {
            continue;
        }
        if let Some(rest) = line.strip_prefix("target triple = ") {
            o.triple = rest == "\"amdgcn-amd-amdhsa\"";
        } else if line.starts_with("@s") {
            *shared = shared_memory(line, d, *shared).map_err(|why| refuse(&why))?;
        } else if let Some(rest) = line.strip_prefix("define amdgpu_kernel void @") {
            if o.entry.replace(rest.trim_end_matches('(')).is_some() {
                return Err(refuse("a second kernel"));
            }
            let head = lines.by_ref().map(|(_, l)| l.trim()).take_while(|l| !l.starts_with(')'));
            o.params = head.collect();
            let mut body =
                lines.by_ref().map(|(n, l)| (n, l.trim())).take_while(|(_, l)| *l != "}").peekable();
            let first = body.peek().map_or(0, |(n, _)| *n);
            o.body = Some((first, body.map(|(_, l)| l).collect()));
        } else if let Some(rest) = line.strip_prefix("attributes #0 = ") {
            o.attributes = Some(rest);
        } else if let Some(rest) = line.strip_prefix("!1 = !{") {
            let sizes = rest.trim_end_matches('}').split(", ").map(|w| w.strip_prefix("i32 ")?.parse().ok());
            let sizes: Option<Vec<u32>> = sizes.collect();
            o.group = sizes.and_then(|s| s.try_into().ok());
        } else {
            return Err(refuse("this is not known"));
        }
    }
    Ok(o)
}

/// `@s0 = internal addrspace(3) global [64 x float] undef, align 16`
fn shared_memory(line: &str, d: &mut Decoder<'_>, used: usize) -> Result<usize, String> {
    let mut c = Cursor::new(line);
    let name = c.word();
    c.wants("= internal addrspace(3) global [")?;
    let count = c.number()? as usize;
    c.wants("x")?;
    let ty = c.ty()?;
    c.wants("] undef, align ")?;
    let at = used.next_multiple_of(c.number()?.max(1) as usize);
    c.ends()?;
    let column = d.names.constant(File::Narrow, at as u64);
    d.names.set(name, Named::One(Ty::Lds, column))?;
    Ok(at + count * usize::from(ty.bytes()))
}

/// Lanes of a wave, by the attributes.
fn wave(attributes: &str, threads: u64, own: usize) -> Result<usize, String> {
    if let Some(missing) = EXACT.iter().find(|a| !attributes.contains(**a)) {
        return Err(format!("without {missing} subnormal numbers may be lost"));
    }
    if attributes.contains("fp-math\"=\"true\"") {
        return Err("an attribute lets numbers be others".into());
    }
    let size = format!("\"amdgpu-flat-work-group-size\"=\"{threads},{threads}\"");
    if !attributes.contains(&size) {
        return Err(format!("the attributes do not say that workgroups have {threads} invocations"));
    }
    let asked = [32, 64].into_iter().find(|n| attributes.contains(&format!("+wavefrontsize{n}\"")));
    match asked {
        Some(32) if own == 64 => Err("there are no waves of 32 lanes".into()),
        asked => Ok(asked.unwrap_or(own)),
    }
}
