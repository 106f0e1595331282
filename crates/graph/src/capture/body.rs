//! Conditional nodes in a capture, whose bodies are captured too.
//!
//! | body | captured | if that is invalidated |
//! |---|---|---|
//! | apart | into graphs of its own, which are put into the body in the end | the outer capture goes on |
//! | directly | straight into the body | the outer capture can only be ended, and its graph is leaked |

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{
    CaptureMode, GraphBuilder,
    books::{Books, Kind, begin, begin_with},
    plan::{self, Plan, Step},
    state::{PRIMARY, Role},
};
use crate::graph::{CapturedConditional, Condition, ConditionalKind, NodeKind};
use cuhold_handles::{
    Error, Result, Stream, StreamOptions,
    driver_sys::{Failure, ffi::*, mutant},
    foreign::{self, Caught},
};
use parking_lot::Mutex;
use std::{ptr, sync::Arc};

/// Why there is no body.
enum Failed {
    Error(Error),
    /// The closure did.
    Panicked(Caught),
}

impl Failed {
    /// The error; a panic goes on.
    fn into_error(self) -> Error {
        match self {
            Self::Error(error) => error,
            Self::Panicked(caught) => caught.resume(),
        }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// What a conditional node is made from.
type Of = (CUgraphConditionalHandle, ConditionalKind, u32);

impl GraphBuilder {
    /// Makes a condition, for one conditional node of this capture, in a body or not. With a default, each launch begins with
    /// that; without, with what the launch before left. One that no conditional node uses gets one that does nothing when the
    /// capture ends: the driver takes no graph with an unused condition. CUDA 12.3.
    ///
    /// Calls `cuGraphConditionalHandleCreate`.
    ///
    /// # Errors
    /// [`ErrorKind::State`](cuhold_handles::ErrorKind::State): the capture takes no more work; the call's failure.
    #[doc(alias = "cuGraphConditionalHandleCreate")]
    pub fn condition(&mut self, default: Option<u32>) -> Result<Condition> {
        self.capture.lock().state.may_work(self.member)?;
        let root = self.root();
        let mut root = root.lock();
        root.state.may_work(PRIMARY)?;
        root.conditions.reserve(1);
        let (driver, graph, context) = (self.driver(), root.graph()?, self.context().as_raw());
        let flags = if default.is_some() { CU_GRAPH_COND_ASSIGN_DEFAULT } else { 0 };
        let (mut handle, value) = (0, default.unwrap_or(0));
        let (calls, out) = (driver.callable()?, &raw mut handle);
        // SAFETY: *pointers*: a live local; *handles*: the captured graph and its context.
        unsafe { calls.cuGraphConditionalHandleCreate(out, graph, context, value, flags) }
            .map_err(|failure| driver.error(failure))?;
        root.conditions.push((handle, false));
        Ok(Condition::of(root.id, handle))
    }

    /// Captures a conditional node that runs what the closure captures where the condition isn't 0.
    ///
    /// The body is captured apart: where that fails, by the closure's `Err` or panic or because the body's capture was
    /// invalidated, this capture goes on as if nothing had been asked for, and the condition can be used again. Inside of the body another
    /// conditional can be asked for while no fork is open.
    ///
    /// Calls `cuStreamCreateWithPriority`, `cuStreamBeginCapture`, `cuStreamGetCaptureInfo`, `cuStreamEndCapture`,
    /// `cuGraphGetNodes`, `cuGraphNodeGetType`, `cuGraphGetEdges`, `cuGraphAddNode`, `cuGraphAddChildGraphNode`,
    /// `cuStreamUpdateCaptureDependencies`, `cuGraphDestroy`, `cuStreamDestroy`; where the end of the body's capture failed
    /// `cuStreamIsCapturing`. Besides what the closure asks of the builder.
    ///
    /// # Errors
    /// The closure's; [`ErrorKind::State`](cuhold_handles::ErrorKind::State): the capture takes no more work, or this is a
    /// body that is captured apart and has forks open; [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): a
    /// condition of another graph, or one that is used already; the calls' failures. Where a body couldn't be put into its
    /// node any more, this capture can only be ended.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::{CaptureMode, GraphBuilder, handles::{Device, Driver}};
    /// # use cuhold_memory::Buffer;
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let mut values = Buffer::<u32>::zeroed(&stream, 16)?;
    /// let mut builder = GraphBuilder::begin(&stream, CaptureMode::ThreadLocal)?;
    /// let yes = builder.condition(Some(1))?;
    /// builder.if_then(yes, |body| body.fill(&mut values, 7))?;
    /// let mut exec = builder.end()?.instantiate()?;
    /// exec.launch(&stream)?;
    /// assert_eq!(values.to_vec()?, [7; 16]);
    /// # Ok::<(), cuhold_graph::handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphAddNode")]
    pub fn if_then(
        &mut self,
        condition: Condition,
        body: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let mut body = Some(body);
        self.apart((condition, ConditionalKind::If, 1), &mut |builder, _| {
            body.take().map_or(Ok(()), |body| body(builder))
        })
    }

    /// Captures a conditional node that runs what the first closure captures where the condition isn't 0, and what the second
    /// one does where it is. CUDA 12.8.
    ///
    /// Calls as [`if_then`](Self::if_then): `cuStreamCreateWithPriority`, `cuStreamBeginCapture`, `cuStreamGetCaptureInfo`,
    /// `cuStreamEndCapture`, `cuGraphGetNodes`, `cuGraphNodeGetType`, `cuGraphGetEdges`, `cuGraphAddNode`,
    /// `cuGraphAddChildGraphNode`, `cuStreamUpdateCaptureDependencies`, `cuGraphDestroy`, `cuStreamDestroy`,
    /// `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// As [`if_then`](Self::if_then).
    #[doc(alias = "cuGraphAddNode")]
    pub fn if_else(
        &mut self,
        condition: Condition,
        then: impl FnOnce(&mut Self) -> Result<()>,
        otherwise: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let (mut then, mut otherwise) = (Some(then), Some(otherwise));
        self.apart((condition, ConditionalKind::If, 2), &mut |builder, nth| match nth {
            0 => then.take().map_or(Ok(()), |then| then(builder)),
            _ => otherwise.take().map_or(Ok(()), |otherwise| otherwise(builder)),
        })
    }

    /// Captures a conditional node that runs what the closure captures over and over, while the condition isn't 0 when it is to
    /// begin.
    ///
    /// Calls as [`if_then`](Self::if_then): `cuStreamCreateWithPriority`, `cuStreamBeginCapture`, `cuStreamGetCaptureInfo`,
    /// `cuStreamEndCapture`, `cuGraphGetNodes`, `cuGraphNodeGetType`, `cuGraphGetEdges`, `cuGraphAddNode`,
    /// `cuGraphAddChildGraphNode`, `cuStreamUpdateCaptureDependencies`, `cuGraphDestroy`, `cuStreamDestroy`,
    /// `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// As [`if_then`](Self::if_then).
    #[doc(alias = "cuGraphAddNode")]
    pub fn while_loop(
        &mut self,
        condition: Condition,
        body: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let mut body = Some(body);
        self.apart((condition, ConditionalKind::While, 1), &mut |builder, _| {
            body.take().map_or(Ok(()), |body| body(builder))
        })
    }

    /// Captures a conditional node that runs the body of the condition's number, from 0 on, or none if there is none of that
    /// number. The closure is called for each, with its number. CUDA 12.8.
    ///
    /// Calls as [`if_then`](Self::if_then): `cuStreamCreateWithPriority`, `cuStreamBeginCapture`, `cuStreamGetCaptureInfo`,
    /// `cuStreamEndCapture`, `cuGraphGetNodes`, `cuGraphNodeGetType`, `cuGraphGetEdges`, `cuGraphAddNode`,
    /// `cuGraphAddChildGraphNode`, `cuStreamUpdateCaptureDependencies`, `cuGraphDestroy`, `cuStreamDestroy`,
    /// `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// As [`if_then`](Self::if_then); no bodies.
    #[doc(alias = "cuGraphAddNode")]
    pub fn switch(
        &mut self,
        condition: Condition,
        bodies: u32,
        mut body: impl FnMut(&mut Self, u32) -> Result<()>,
    ) -> Result<()> {
        if bodies == 0 {
            return Err(Error::argument("bodies: 0, where there must be one at least"));
        }
        self.apart((condition, ConditionalKind::Switch, bodies), &mut body)
    }

    /// Captures a conditional node whose bodies are captured straight into it: for a conditional that stands inside of a body
    /// beside open forks. The closure is called for each body, with its number.
    ///
    /// Where that fails, the whole capture can only be ended. Where a body's capture was invalidated, the driver has freed the
    /// body under its node (measured): the graph is then leaked, with one report, since using or destroying it would end the
    /// process.
    ///
    /// Calls `cuGraphAddNode`, `cuStreamCreateWithPriority`, `cuStreamBeginCaptureToGraph`, `cuStreamGetCaptureInfo`,
    /// `cuStreamUpdateCaptureDependencies`, `cuStreamEndCapture`, `cuStreamDestroy`; where that failed `cuStreamIsCapturing`.
    /// Besides what the closure asks of the builder.
    ///
    /// # Errors
    /// As [`if_then`](Self::if_then); another number of bodies than that kind has; a body that is captured apart, which has no
    /// directly captured ones inside.
    #[doc(alias = "cuStreamBeginCaptureToGraph")]
    pub fn conditional_direct(
        &mut self,
        condition: Condition,
        kind: ConditionalKind,
        bodies: u32,
        mut body: impl FnMut(&mut Self, u32) -> Result<()>,
    ) -> Result<()> {
        let fits = match kind {
            ConditionalKind::If => (1..=2).contains(&bodies),
            ConditionalKind::While => bodies == 1,
            ConditionalKind::Switch => bodies > 0,
        };
        if !fits {
            return Err(Error::argument(format!("bodies: {bodies}, which is not for {kind:?}")));
        }
        self.may_use(condition)?;
        if self.is_apart() {
            return Err(Error::state(
                "a body that is captured apart has no directly captured ones inside",
            ));
        }
        let raw = self.add_conditional((condition.as_raw(), kind, bodies))?;
        for (raw, nth) in raw.into_iter().zip(0..) {
            if let Err(error) = self.direct_body(raw, nth, &mut body) {
                self.root().lock().state.spoilt(None);
                return Err(error);
            }
        }
        Ok(())
    }

    fn apart(
        &mut self,
        (condition, kind, count): (Condition, ConditionalKind, u32),
        body: &mut dyn FnMut(&mut Self, u32) -> Result<()>,
    ) -> Result<()> {
        self.may_use(condition)?;
        let handle = condition.as_raw();
        // Marked meanwhile, so that a body inside doesn't use it too.
        self.mark(handle, true);
        let mut bodies = Vec::new();
        for nth in 0..count {
            match self.apart_body(nth, body) {
                Ok(plan) => bodies.push(plan),
                Err(failed) => {
                    self.unmark(handle, &bodies);
                    return Err(failed.into_error());
                }
            }
        }
        if self.is_apart() {
            return self.end_segment(Some(Step::Conditional { handle, kind, bodies }));
        }
        let raw = match self.add_conditional((handle, kind, count)) {
            Ok(raw) => raw,
            Err(error) => {
                self.unmark(handle, &bodies);
                return Err(error);
            }
        };
        self.fill_bodies(raw, bodies)
    }

    /// Captures a body into graphs of its own.
    fn apart_body(
        &self,
        nth: u32,
        body: &mut dyn FnMut(&mut Self, u32) -> Result<()>,
    ) -> Result<Plan, Failed> {
        let mut builder = self.body_builder(|stream| {
            let mut books = begin(stream, CaptureMode::Relaxed, Role::Apart)?;
            books.kind = Kind::Apart { root: self.root(), plan: Plan::new() };
            Ok(books)
        })?;
        let failed = match foreign::call(|| body(&mut builder, nth)) {
            Ok(Ok(())) => {
                builder.end_segment(None)?;
                return Ok(builder.take_plan()?);
            }
            Ok(Err(error)) => Ok(error),
            Err(caught) => Err(caught),
        };
        // What conditionals inside of it used can be used again.
        if let Ok(plan) = builder.take_plan() {
            plan::conditions_of(&plan, &mut |handle| self.mark(handle, false));
        }
        Err(match failed {
            Ok(error) => Failed::Error(builder.abandon(error)),
            Err(caught) => Failed::Panicked(caught),
        })
    }

    /// What a body that is captured apart has so far.
    fn take_plan(&self) -> Result<Plan> {
        match &mut self.capture.lock().kind {
            Kind::Apart { plan, .. } => Ok(std::mem::take(plan)),
            _ => Err(Error::state("the body's builder was put in the place of another one")),
        }
    }

    /// Ends a segment of a body that is captured apart; with a step behind it, begins the next one.
    fn end_segment(&mut self, step: Option<Step>) -> Result<()> {
        if !self.is_open() {
            let why = self.capture.lock().state.why_not();
            return Err(Error::state(why.unwrap_or_default()));
        }
        let graph = self.close()?;
        if let Some(kind) = graph.inner.kinds().outside_of_bodies() {
            return Err(outside(kind));
        }
        let kind = std::mem::take(&mut self.capture.lock().kind);
        let Kind::Apart { root, mut plan } = kind else {
            return Err(Error::state("the body's builder was put in the place of another one"));
        };
        if !graph.is_empty() {
            plan.push(Step::Segment(graph));
        }
        let Some(step) = step else {
            self.capture.lock().kind = Kind::Apart { root, plan };
            return Ok(());
        };
        plan.push(step);
        let mut books = begin(&self.stream, CaptureMode::Relaxed, Role::Apart)?;
        books.kind = Kind::Apart { root, plan };
        self.capture = Arc::new(Mutex::new(books));
        Ok(())
    }

    /// Captures a body straight into its graph.
    fn direct_body(
        &self,
        raw: CUgraph,
        nth: u32,
        body: &mut dyn FnMut(&mut Self, u32) -> Result<()>,
    ) -> Result<()> {
        let mut builder = self.body_builder(|stream| {
            let begun = begin_with(stream, Role::Direct, |calls| {
                let (none, mode) = (ptr::null(), CaptureMode::Relaxed.raw());
                // SAFETY: *handles*: the body's stream and the node's body, both live; *pointers*: none are needed.
                unsafe {
                    calls.cuStreamBeginCaptureToGraph(stream.raw(), raw, none, ptr::null(), 0, mode)
                }
            });
            let mut books = begun.inspect_err(|error| {
                // It may have been ended badly, after which the body isn't there any more: better leaked than used (P7).
                if let Some(failure) = super::failure_of(error) {
                    self.root().lock().state.poisoned(failure);
                }
            })?;
            books.kind = Kind::Direct { root: self.root() };
            Ok(books)
        })?;
        match body(&mut builder, nth) {
            Ok(()) => builder.close_direct(true),
            Err(error) => Err(builder.abandon(error)),
        }
    }

    /// A builder for a body, on a stream of its own.
    fn body_builder(&self, begin: impl FnOnce(&Stream) -> Result<Books>) -> Result<Self> {
        let stream = Stream::with_options(self.context(), StreamOptions::default())?;
        match begin(&stream) {
            Ok(books) => Ok(Self::of(stream, PRIMARY, Arc::new(Mutex::new(books)))),
            Err(error) => Err(match stream.close() {
                Ok(_) => error,
                Err(refused) => error.with_undo(&refused.error),
            }),
        }
    }

    /// Captures a conditional node.
    fn add_conditional(&mut self, of: Of) -> Result<Vec<CUgraph>> {
        let context = self.context().as_raw();
        let (mut bodies, mut told) = (Vec::new(), CUgraphNode::NULL);
        self.node(|calls, graph, after, node| {
            bodies = plan::add_conditional(calls, (graph, context), after, of, node)?;
            told = *node;
            Ok(())
        })?;
        let (handle, kind, _) = of;
        self.mark(handle, true);
        let conditional = CapturedConditional { node: told, handle, kind, bodies: bodies.clone() };
        self.root().lock().conditionals.push(conditional);
        Ok(bodies)
    }

    /// Puts bodies into their node.
    fn fill_bodies(&self, raw: Vec<CUgraph>, bodies: Vec<Plan>) -> Result<()> {
        let (calls, context) = (self.driver().calls(), self.context().as_raw());
        let mut told = Vec::new();
        let mut filled = Ok(());
        for (raw, mut plan) in raw.into_iter().zip(bodies) {
            filled = filled.and_then(|()| plan::fill(calls, (raw, context), &mut plan, &mut told));
        }
        let root = self.root();
        let mut root = root.lock();
        root.conditionals.extend(told);
        filled.map_err(|failure| {
            if !mutant::is_out("capture-unfilled") {
                root.state.spoilt(Some(failure));
            }
            self.driver().error(failure)
        })
    }

    /// Gives each condition that no node uses one that does nothing: the driver takes no graph with an unused one.
    pub(super) fn use_all_conditions(&mut self) -> Result<()> {
        let (graph, unused) = {
            let books = self.capture.lock();
            if books.state.why_not().is_some() {
                return Ok(());
            }
            let unused: Vec<_> =
                books.conditions.iter().filter(|(_, used)| !used).map(|(h, _)| *h).collect();
            (books.graph()?, unused)
        };
        let (driver, context) = (self.driver(), self.context().as_raw());
        for handle in unused {
            let (of, mut node) = ((handle, ConditionalKind::If, 1), CUgraphNode::NULL);
            plan::add_conditional(driver.callable()?, (graph, context), &[], of, &mut node)
                .map(drop)
                .map_err(|failure: Failure| driver.error(failure))?;
        }
        Ok(())
    }

    /// Refuses a condition that isn't this capture's or is used, and a place where a conditional can't be.
    fn may_use(&self, condition: Condition) -> Result<()> {
        let books = self.capture.lock();
        books.state.may_work(self.member)?;
        if matches!(books.kind, Kind::Apart { .. })
            && (self.member != PRIMARY || books.state.unjoined() > 0)
        {
            return Err(Error::state(
                "a body that is captured apart takes a conditional only while it has no forks open: join them first, or \
                 capture the body directly",
            ));
        }
        drop(books);
        let root = self.root();
        let root = root.lock();
        let known = root.conditions.iter().find(|(handle, _)| *handle == condition.as_raw());
        match known.filter(|_| condition.graph() == root.id) {
            Some((_, false)) => Ok(()),
            Some((_, true)) => Err(Error::argument(
                "condition: a conditional node uses it already, where each is for one",
            )),
            None => Err(Error::argument("condition: it is of another graph")),
        }
    }

    fn mark(&self, condition: CUgraphConditionalHandle, used: bool) {
        for (handle, is_used) in &mut self.root().lock().conditions {
            if *handle == condition {
                *is_used = used;
            }
        }
    }

    /// Bodies aren't used after all.
    fn unmark(&self, condition: CUgraphConditionalHandle, bodies: &[Plan]) {
        self.mark(condition, false);
        for plan in bodies {
            plan::conditions_of(plan, &mut |handle| self.mark(handle, false));
        }
    }

    /// The books of the capture that all bodies are inside of.
    pub(super) fn root(&self) -> Arc<Mutex<Books>> {
        match &self.capture.lock().kind {
            Kind::Root => Arc::clone(&self.capture),
            Kind::Apart { root, .. } | Kind::Direct { root } => Arc::clone(root),
        }
    }

    fn is_apart(&self) -> bool {
        matches!(self.capture.lock().kind, Kind::Apart { .. })
    }

    /// Refuses what a conditional body can't hold.
    pub(super) fn not_in_body(&self, kind: NodeKind) -> Result<()> {
        if matches!(self.capture.lock().kind, Kind::Root) { Ok(()) } else { Err(outside(kind)) }
    }
}

fn outside(kind: NodeKind) -> Error {
    Error::argument(format!(
        "a conditional body can't hold a node of kind {kind}: CUDA takes it, and then refuses to make the graph executable"
    ))
}
