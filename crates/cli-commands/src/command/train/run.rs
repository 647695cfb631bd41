//! What all training runs have in common: a directory, a checkpoint in it, and settings that must
//! stay what they were.
//!
//! A run that is resumed takes its settings from its checkpoint, so that `--resume` is all that has
//! to be said; one that is said and differs is an error, because the result would be that of
//! neither run.

use crate::args::Run;
use elinvar::distributed::Group;
use elinvar::nn::Module;
use elinvar::nn::train::{Checkpoint, Checkpoints, Source, TensorBatch, Trainer};
use elinvar::{Backend, DType, Error, Result, io};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// The checkpoint's name in the directory.
const FILE: &str = "checkpoint.safetensors";
/// A run on a slow machine loses no more than this.
const EVERY: Duration = Duration::from_secs(60);

/// A directory, the checkpoint to go on from, and the settings.
pub struct RunDir {
    /// Where everything is written.
    dir: PathBuf,
    /// What the run goes on from.
    pub checkpoint: Option<Checkpoint>,
    /// The step of that checkpoint.
    pub checkpoint_step: u64,
    settings: BTreeMap<String, String>,
    every_steps: Option<u64>,
    group: Group,
}

impl RunDir {
    /// Opens a directory; reads its checkpoint if the run is to be resumed. Of several workers the
    /// first does, and tells the others.
    pub fn open(args: &Run, default_dir: &str, group: &Group) -> Result<RunDir> {
        let dir = args.out.clone().unwrap_or_else(|| PathBuf::from(default_dir));
        let is_first = group.rank() == 0;
        if is_first {
            io::writable_dir(&dir)?;
        }
        let path = dir.join(FILE);
        let checkpoint = if !args.resume || !is_first {
            None
        } else if path.exists() {
            Some(Checkpoint::load(&path)?)
        } else {
            if !args.quiet {
                eprintln!("{}: no checkpoint yet, so the training begins at its beginning", dir.display());
            }
            None
        };
        let checkpoint = Checkpoint::shared(checkpoint, group)?;
        let group = group.clone();
        Ok(RunDir {
            dir,
            checkpoint_step: checkpoint.as_ref().map_or(0, |c| c.position().step),
            checkpoint,
            settings: BTreeMap::new(),
            every_steps: args.checkpoint_steps,
            group,
        })
    }

    /// The value of a setting: what is given, what the checkpoint says, or the default. It is noted
    /// for checkpoints.
    ///
    /// # Errors
    /// `InvalidArgument` if the checkpoint says something else than what is given; `Format` if it
    /// says nothing sensible.
    pub fn setting<T: FromStr + Display + PartialEq>(
        &mut self,
        name: &str,
        given: Option<T>,
        default: impl FnOnce() -> T,
    ) -> Result<T> {
        let value = match &self.checkpoint {
            None => given.unwrap_or_else(default),
            Some(c) => {
                let text = c.settings().get(name).ok_or_else(|| {
                    Error::format(format!("{}: the checkpoint does not tell its {name}", self.dir.display()))
                })?;
                let stored: T = text.parse().map_err(|_| {
                    Error::format(format!("{}: the checkpoint's {name} is {text:?}", self.dir.display()))
                })?;
                if let Some(given) = given.filter(|g| *g != stored) {
                    return Err(self.began_with(name, &stored, &given));
                }
                stored
            }
        };
        self.settings.insert(name.to_owned(), value.to_string());
        Ok(value)
    }

    /// The value of a setting that checkpoints of older programs do not tell: those ran with the
    /// default.
    ///
    /// # Errors
    /// As [`RunDir::setting`].
    pub fn newer_setting<T: FromStr + Display + PartialEq + Default>(
        &mut self,
        name: &str,
        given: Option<T>,
    ) -> Result<T> {
        let is_told = self.checkpoint.as_ref().is_none_or(|c| c.settings().contains_key(name));
        if is_told {
            return self.setting(name, given, T::default);
        }
        if let Some(given) = given.filter(|given| *given != T::default()) {
            return Err(self.began_with(name, &T::default(), &given));
        }
        self.settings.insert(name.to_owned(), T::default().to_string());
        Ok(T::default())
    }
    fn began_with(&self, name: &str, stored: &dyn Display, given: &dyn Display) -> Error {
        Error::argument(format!(
            "{}: this training began with {name} {stored}, and not with {given}; go on without saying it, or begin a \
             new one without --resume",
            self.dir.display()
        ))
    }

    /// Have all workers these settings?
    pub fn agree(&self) -> Result<()> {
        self.group.agree("set of settings", format!("{:?}", self.settings).as_bytes())
    }
    /// When and where the run writes checkpoints.
    pub fn checkpoints(&self) -> Checkpoints {
        let c = Checkpoints::new(self.dir.join(FILE)).every(EVERY).settings(self.settings.clone());
        match self.every_steps {
            None => c,
            Some(n) => c.every_steps(n),
        }
    }
    /// A file in the directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
    /// The directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }
    /// A trainer with what the command line says of a step, which goes on from the checkpoint.
    pub fn applied<'a, B: Backend, M: Module<B>, S: Source<B>>(
        &mut self,
        args: &Run,
        amp: Option<DType>,
        mut trainer: Trainer<'a, B, M, S>,
    ) -> Trainer<'a, B, M, S>
    where
        S::Batch: TensorBatch<B>,
    {
        if let Some(half) = amp {
            trainer = trainer.amp(half);
        }
        if args.capture {
            trainer = trainer.capture();
        }
        if args.zero1 {
            trainer = trainer.zero1();
        }
        if let Some(bytes) = args.bucket_bytes {
            trainer = trainer.bucket_bytes(bytes);
        }
        match self.checkpoint.take() {
            Some(checkpoint) => trainer.resume(checkpoint),
            None => trainer,
        }
    }
}
