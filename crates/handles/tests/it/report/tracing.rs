//! The sink that makes `tracing` events.

use super::{failure, stream, warning};
use cuhold_driver_sys::CUresult;
use cuhold_handles::{CudaWarning, Current, Fate, Object, ObjectKind, Reports, Sink};
use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{Arc, Mutex},
};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// An event's fields, as text.
type Fields = BTreeMap<&'static str, String>;

/// Keeps each event's level, target and fields.
#[derive(Clone, Default)]
struct Keeps(Arc<Mutex<Vec<(Level, String, Fields)>>>);

impl Subscriber for Keeps {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        struct Visitor(Fields);
        impl Visit for Visitor {
            fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
                self.0.insert(field.name(), format!("{value:?}"));
            }
        }
        let mut fields = Visitor(Fields::new());
        event.record(&mut fields);
        let metadata = event.metadata();
        let entry = (*metadata.level(), metadata.target().to_owned(), fields.0);
        self.0.lock().unwrap().push(entry);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// The one event that this warning becomes.
fn event_of(raised: CudaWarning) -> Fields {
    let keeps = Keeps::default();
    let reports = Reports::new();
    drop(reports.set_sink(Sink::tracing()));
    tracing::subscriber::with_default(keeps.clone(), || reports.raise(raised));
    let mut events = keeps.0.lock().unwrap();
    let (level, target, fields) = events.pop().unwrap();
    assert_eq!((level, target.as_str(), events.len()), (Level::WARN, "cuhold", 0));
    fields
}

fn fields(expected: &[(&'static str, &str)]) -> Fields {
    expected.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
}

#[test]
fn a_warning_becomes_one_event_with_fields() {
    let failed = CudaWarning::failed(failure(CUresult::INVALID_HANDLE), stream(7), Fate::Leaked)
        .with_current(Current::Is(0x20))
        .with_text("closed twice");
    let message = failed.to_string();
    let expected = fields(&[
        ("message", &message),
        ("kind", "Failed"),
        ("call", "\"cuStreamDestroy\""),
        ("status", "400"),
        ("object", "\"stream\""),
        ("raw", "256"),
        ("id", "7"),
        ("fate", "leaked"),
        ("current", "32"),
        ("cause", "\"closed twice\""),
    ]);
    assert_eq!(event_of(failed), expected);
}

#[test]
fn what_is_not_known_is_no_field() {
    let note = CudaWarning::note(Object::nameless(ObjectKind::Reclaimer), "broken");
    let expected = fields(&[
        ("message", "reclaimer: broken"),
        ("kind", "Note"),
        ("object", "\"reclaimer\""),
        ("raw", "0"),
        ("id", "0"),
        ("cause", "\"broken\""),
    ]);
    assert_eq!(event_of(note), expected);
}

#[test]
fn the_tracing_sink_is_shown_by_its_name() {
    assert_eq!(format!("{:?}", Sink::tracing()), "Sink(tracing)");
    assert_eq!(event_of(warning(1)).get("id").unwrap(), "1");
}
