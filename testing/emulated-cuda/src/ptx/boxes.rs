//! TMA copies, mbarriers, `wgmma`: lines to instructions.

use super::decode::Decoder;
use emulated_gpu::inst::{Column, Factor, Inst, Left, Space};

impl Decoder {
    /// Requires `sm_90a`, which has these instructions.
    fn needs_90a(&self) -> Result<(), String> {
        self.needs(90)?;
        if self.alone { Ok(()) } else { Err("needs .target sm_90a".into()) }
    }
    /// An address in shared memory, without an offset.
    fn place(&mut self, text: &str) -> Result<Column, String> {
        match self.address(Space::Shared, text)? {
            (at, 0) => Ok(at),
            _ => Err("bytes behind an address".into()),
        }
    }

    /// Decodes one of these instructions.
    pub fn boxes(&mut self, parts: &[&str], o: &[&str]) -> Result<Inst, String> {
        Ok(match (parts, o) {
            (["mbarrier", "init", "shared::cta", "b64"], [at, count]) => {
                self.needs(90)?;
                self.touches(Space::Shared, 8);
                let (at, offset) = self.address(Space::Shared, at)?;
                Inst::SignalInit { at, offset, count: self.n(count)? }
            }
            (["fence", "mbarrier_init", "release", "cluster"], []) => {
                self.needs(90)?;
                Inst::SignalFence
            }
            (["mbarrier", "arrive", "expect_tx", "shared::cta", "b64"], ["_", at, bytes]) => {
                self.needs(90)?;
                let (at, offset) = self.address(Space::Shared, at)?;
                Inst::SignalExpect { at, offset, bytes: self.n(bytes)? }
            }
            (["mbarrier", "try_wait", "parity", "shared::cta", "b64"], [to, at, parity]) => {
                self.needs(90)?;
                let (at, parity) = (self.place(at)?, self.n(parity)?);
                Inst::SignalWait { to: self.gives_p(to)?, at, parity }
            }
            (
                [
                    "cp",
                    "async",
                    "bulk",
                    "tensor",
                    "3d",
                    "shared::cluster",
                    "global",
                    "tile",
                    "mbarrier::complete_tx::bytes",
                ],
                [to, from, signal],
            ) => {
                self.needs(90)?;
                self.touches(Space::Shared, 8);
                let inner = from.strip_prefix('[').and_then(|t| t.strip_suffix(']')).ok_or("a tensor map")?;
                let (map, index) = inner.split_once(',').ok_or("an index")?;
                let (to, map) = (self.place(to)?, self.w(map.trim())?);
                Inst::FetchBox {
                    to,
                    map,
                    from: self.list(index.trim(), Self::n)?,
                    signal: self.place(signal)?,
                }
            }
            (["wgmma", "fence", "sync", "aligned"], []) => {
                self.needs_90a()?;
                Inst::GroupFence
            }
            (["wgmma", "commit_group", "sync", "aligned"], []) => Inst::GroupCommit,
            (["wgmma", "wait_group", "sync", "aligned"], [n]) => {
                Inst::GroupWait(n.parse().map_err(|_| "a number of groups")?)
            }
            (
                ["wgmma", "mma_async", "sync", "aligned", shape, "f32", x, y],
                [d, a, b, scaled, "1", "1", turned @ ..],
            ) => {
                self.needs_90a()?;
                let factor = match (*x, *y) {
                    ("f16", "f16") => Factor::F16,
                    ("bf16", "bf16") => Factor::BF16,
                    ("tf32", "tf32") => Factor::Tf32,
                    _ => return Err(format!("a product of {x} and {y}")),
                };
                self.touches(Space::Shared, factor.bytes());
                // Only the layouts of 16-bit elements and of register operands are documented.
                let held = a.starts_with('{');
                let turned = match (factor, turned) {
                    (Factor::F16 | Factor::BF16, [a @ ("0" | "1"), b @ ("0" | "1")]) if !held => {
                        [*a == "1", *b == "1"]
                    }
                    (Factor::F16 | Factor::BF16, [b @ ("0" | "1")]) if held => [false, *b == "1"],
                    (Factor::Tf32, []) if !held => [false; 2],
                    _ => return Err(format!("how factors lie: {turned:?}")),
                };
                let terms = if factor == Factor::Tf32 { "k8" } else { "k16" };
                let columns =
                    shape.strip_prefix("m64n").and_then(|s| s.strip_suffix(terms)?.parse::<usize>().ok());
                let columns = columns.filter(|n| n % 8 == 0 && (8..=256).contains(n)).ok_or("a shape")?;
                let left = if held {
                    Left::Registers(self.list(a, Self::n)?)
                } else {
                    Left::Memory(self.w(a)?, turned[0])
                };
                let (b, scaled) = ((self.w(b)?, turned[1]), self.p(scaled)?);
                let names = d.trim_start_matches('{').trim_end_matches('}').split(',').map(str::trim);
                // With a scale of zero, the previous accumulators may be undefined.
                let sums = names.map(|n| self.gives32(n)).collect::<Result<Vec<Column>, String>>()?;
                if sums.len() != columns / 2 {
                    return Err(format!("{} registers for {columns} columns", sums.len()));
                }
                let number = self.lists.iter().position(|l| *l == sums).unwrap_or_else(|| {
                    self.lists.push(sums);
                    self.lists.len() - 1
                });
                Inst::GroupMma { factor, sums: number as u32, a: left, b, scaled }
            }
            _ => return Err("this instruction is not known".into()),
        })
    }
}
