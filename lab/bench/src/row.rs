//! A row of the catalogue: a workload on a shape.

use crate::data::Data;
use crate::harness::measure;
use crate::line::Line;
use crate::{VERSION, threads};
use elinvar::{CpuDevice, DType, Device, Result, no_grad, try_run};
use std::fmt;

/// The name of our results.
pub const OURS: &str = "ours";
/// The name of results with the backend chosen at compile time.
pub const STATIC: &str = "ours-static";

/// The name of results of captured work (graph replay).
pub const GRAPH: &str = "ours-graph";

/// The group of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Products of matrices.
    Gemm,
    /// One or two elements in, one out.
    Elementwise,
    /// Sums, softmax, norms.
    Reductions,
    /// Convolutions, pools, batch norm.
    Conv,
    /// Scaled dot-product attention.
    Attention,
    /// Whole steps of training.
    Training,
    /// A model's forward pass.
    Inference,
    /// Call overhead: ops that compute next to nothing.
    Overhead,
    /// Sizes that fill a large GPU, and take long elsewhere.
    Large,
    /// Single ops of every kind, on ordinary sizes.
    Ops,
    /// Whole models of ordinary sizes: steps of training, tokens written, sentences read.
    Models,
}

impl Group {
    /// All of them, in the order of their letters.
    pub const ALL: [Group; 11] = [
        Group::Gemm,
        Group::Elementwise,
        Group::Reductions,
        Group::Conv,
        Group::Attention,
        Group::Training,
        Group::Inference,
        Group::Overhead,
        Group::Large,
        Group::Ops,
        Group::Models,
    ];
    /// One word, for a command line.
    pub fn word(self) -> &'static str {
        match self {
            Group::Gemm => "gemm",
            Group::Elementwise => "elementwise",
            Group::Reductions => "reductions",
            Group::Conv => "conv",
            Group::Attention => "attention",
            Group::Training => "training",
            Group::Inference => "inference",
            Group::Overhead => "overhead",
            Group::Large => "large",
            Group::Ops => "ops",
            Group::Models => "models",
        }
    }
    /// Does it run only when asked for by name? Long groups do.
    pub fn is_extra(self) -> bool {
        matches!(self, Group::Large | Group::Ops | Group::Models)
    }
}

/// As in the catalogue that all libraries share.
impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Group::Gemm => "a. GEMM",
            Group::Elementwise => "b. elementwise",
            Group::Reductions => "c. reductions",
            Group::Conv => "d. conv",
            Group::Attention => "e. attention",
            Group::Training => "f. training step",
            Group::Inference => "g. inference",
            Group::Overhead => "h. overhead",
            Group::Large => "i. large",
            Group::Ops => "j. ops",
            Group::Models => "k. models",
        })
    }
}

/// Which rows are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Term {
    /// All of a group.
    Group(Group),
    /// Rows whose name contains this text: see [`Row::name`]. Rows of groups that [are
    /// extra](Group::is_extra) only if the text begins with the group's
    /// name.
    Text(String),
}

impl Term {
    /// A group's word is that group; anything else is a text.
    pub fn of(text: &str) -> Term {
        let group = Group::ALL.into_iter().find(|g| g.word() == text);
        group.map_or_else(|| Term::Text(text.into()), Term::Group)
    }
    /// Is this row wanted?
    pub fn takes(&self, row: &Row) -> bool {
        match self {
            Term::Group(group) => row.group == *group,
            Term::Text(text) => {
                let meant = !row.group.is_extra() || text.starts_with(&row.group.to_string());
                meant && row.name().contains(text)
            }
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Term::Group(group) => write!(f, "the group {group}"),
            Term::Text(text) => write!(f, "\"{text}\" in its name"),
        }
    }
}

/// One call does the work once, and synchronises.
pub(crate) type Task = Box<dyn FnMut() -> Result<()>>;

type Make = Box<dyn Fn(&mut Data<Device>) -> Result<Task>>;
type MakeStatic = Box<dyn Fn(&mut Data<CpuDevice>) -> Result<Task>>;

/// A workload on a shape.
pub struct Row {
    /// Its group.
    pub group: Group,
    /// Name of the workload.
    pub workload: String,
    /// Sizes.
    pub shape: String,
    /// Element type.
    pub dtype: DType,
    /// Operations of the useful work; 0 if not meaningful.
    pub flops: f64,
    /// Bytes if every input is read once and every output written once; 0 if not meaningful.
    pub bytes: f64,
    recorded: bool,
    make: Make,
    make_static: Option<MakeStatic>,
    make_graph: Option<Make>,
}

/// A way to run a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// With the backend chosen at run time.
    Ours,
    /// With the backend chosen at compile time.
    Static,
    /// Captured once, and replayed.
    Graph,
}

impl Variant {
    /// The name of its results.
    pub fn peer(self) -> &'static str {
        match self {
            Variant::Ours => OURS,
            Variant::Static => STATIC,
            Variant::Graph => GRAPH,
        }
    }
}

impl Row {
    /// Without operations and bytes, without a tape.
    pub(crate) fn new<F>(
        group: Group,
        workload: impl Into<String>,
        shape: impl Into<String>,
        dtype: DType,
        make: impl Fn(&mut Data<Device>) -> F + 'static,
    ) -> Row
    where
        F: FnMut() -> Result<()> + 'static,
    {
        Row::new_task(group, workload, shape, dtype, move |data| Ok(Box::new(make(data)) as Task))
    }
    /// The same of work that may be impossible to set up.
    pub(crate) fn new_task(
        group: Group,
        workload: impl Into<String>,
        shape: impl Into<String>,
        dtype: DType,
        make: impl Fn(&mut Data<Device>) -> Result<Task> + 'static,
    ) -> Row {
        Row {
            group,
            workload: workload.into(),
            shape: shape.into(),
            dtype,
            flops: 0.0,
            bytes: 0.0,
            recorded: false,
            make: Box::new(move |data| try_run(|| make(data))?),
            make_static: None,
            make_graph: None,
        }
    }
    /// Operations of the useful work.
    pub(crate) fn flops(mut self, flops: usize) -> Row {
        self.flops = flops as f64;
        self
    }
    /// Least bytes that are read and written.
    pub(crate) fn bytes(mut self, bytes: usize) -> Row {
        self.bytes = bytes as f64;
        self
    }
    /// With the tape on, as for gradients.
    pub(crate) fn recorded(mut self) -> Row {
        self.recorded = true;
        self
    }
    /// The same work with the backend chosen at compile time.
    pub(crate) fn also_static<F>(mut self, make: impl Fn(&mut Data<CpuDevice>) -> F + 'static) -> Row
    where
        F: FnMut() -> Result<()> + 'static,
    {
        self.make_static = Some(Box::new(move |data| Ok(Box::new(try_run(|| make(data))?) as Task)));
        self
    }

    /// The same work, captured and replayed.
    pub(crate) fn also_graph<F>(mut self, make: impl Fn(&mut Data<Device>) -> Result<F> + 'static) -> Row
    where
        F: FnMut() -> Result<()> + 'static,
    {
        self.make_graph = Some(Box::new(move |data| Ok(Box::new(try_run(|| make(data))??) as Task)));
        self
    }

    /// `group|workload|shape|dtype`, as the catalogue that all libraries share has it.
    pub fn name(&self) -> String {
        format!("{}|{}|{}|{}", self.group, self.workload, self.shape, self.dtype)
    }
    /// The ways to run it on a device.
    pub fn variants(&self, device: &Device) -> Vec<Variant> {
        let fixed = self.make_static.is_some() && matches!(device, Device::Cpu(_));
        // Devices without a queue call the function each time; a step of training is made by other
        // code nevertheless.
        let queue = !matches!(device, Device::Cpu(_) | Device::Reference(_));
        let graph = self.make_graph.is_some() && (queue || self.trains());
        let others = [fixed.then_some(Variant::Static), graph.then_some(Variant::Graph)];
        [Variant::Ours].into_iter().chain(others.into_iter().flatten()).collect()
    }
    /// Measures it for about this many seconds.
    ///
    /// # Errors
    /// `Unsupported` if the device cannot do it, or there is no such variant; the device's errors.
    pub fn measure(&self, variant: Variant, device: &Device, seconds: f64) -> Result<Line> {
        let mut task = self.task(variant, device)?;
        let stats = self.run(|| measure(seconds, &mut task))?;
        let rate = |work: f64| (work > 0.0).then(|| (work / stats.median / 1e7).round() / 100.0);
        Ok(Line {
            peer: variant.peer(),
            version: VERSION,
            group: self.group.to_string(),
            workload: self.workload.clone(),
            shape: self.shape.clone(),
            dtype: self.dtype.name(),
            threads: threads(device),
            median_s: stats.median,
            min_s: stats.min,
            max_s: stats.max,
            samples: stats.samples,
            flops: self.flops,
            bytes: self.bytes,
            gflops: rate(self.flops),
            gbps: rate(self.bytes),
        })
    }
    /// Runs it this many times.
    ///
    /// # Errors
    /// As [`Row::measure`].
    pub fn repeat(&self, device: &Device, times: usize) -> Result<()> {
        let mut task = self.task(Variant::Ours, device)?;
        self.run(|| (0..times).try_for_each(|_| task()))
    }
    /// Is it a step of training?
    pub fn trains(&self) -> bool {
        self.workload.starts_with("train_")
    }
    pub(crate) fn task(&self, variant: Variant, device: &Device) -> Result<Task> {
        let made = match (variant, device) {
            (Variant::Ours, _) => Some((self.make)(&mut Data::new(device.clone()))),
            (Variant::Static, Device::Cpu(cpu)) => {
                self.make_static.as_ref().map(|make| make(&mut Data::new(cpu.clone())))
            }
            (Variant::Static, _) => None,
            (Variant::Graph, _) => self.make_graph.as_ref().map(|make| make(&mut Data::new(device.clone()))),
        };
        made.unwrap_or_else(|| {
            let (name, variant) = (self.name(), variant.peer());
            Err(elinvar::Error::unsupported(format!("bench: {name} has no variant {variant} on {device}")))
        })
    }
    pub(crate) fn run<T>(&self, run: impl FnOnce() -> Result<T>) -> Result<T> {
        try_run(|| if self.recorded { run() } else { no_grad(run) })?
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Row({})", self.name())
    }
}
