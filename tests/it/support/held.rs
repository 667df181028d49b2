//! Watches that report later than they could, as those of a loaded server do.

use futures::StreamExt;
use http::Request;
use http_body::Frame;
use http_body_util::{BodyDataStream, BodyExt, StreamBody};
use kube::Client;
use kube::client::Body;
use tokio::sync::watch::Sender;

/// Holds back what watches of resources report, until it is released; those of Argo CD's kinds
/// and all other requests are served as usual.
#[derive(Clone, Default)]
pub struct Watches(Sender<bool>);

impl Watches {
    /// From now on nothing is reported.
    pub fn hold(&self) {
        self.0.send_replace(true);
    }

    /// Reports what was held back.
    pub fn release(&self) {
        self.0.send_replace(false);
    }

    /// The client with these watches.
    pub fn of(&self, client: Client) -> Client {
        let held = self.0.clone();
        let serve = move |request: Request<Body>| {
            let (client, held) = (client.clone(), held.subscribe());
            let uri = request.uri();
            let watches = uri.query().is_some_and(|query| query.contains("watch=true"))
                && !uri.path().contains("argoproj.io");
            async move {
                let response = client.send(request).await?;
                if !watches {
                    return Ok::<_, kube::Error>(response.map(BodyExt::boxed_unsync));
                }
                Ok(response.map(|body| {
                    let events = BodyDataStream::new(body);
                    let later = events.then(move |event| {
                        let mut held = held.clone();
                        async move {
                            // Fails only when the world has ended.
                            let _ = held.wait_for(|held| !held).await;
                            event.map(Frame::data)
                        }
                    });
                    StreamBody::new(later).boxed_unsync()
                }))
            }
        };
        Client::new(tower::service_fn(serve), "default")
    }
}
