//! What is read of objects that route traffic: a few fields of Kubernetes, of the Gateway API and
//! of Istio, whatever else the object has.

use std::collections::BTreeMap;

lenient! {
    /// An Ingress.
    pub struct IngressView {
        /// The desired state.
        pub spec: IngressSpecView,
        /// The observed state.
        pub status: BalancedStatusView,
    }

    /// The desired state of an Ingress.
    pub struct IngressSpecView {
        /// Certificates.
        pub tls: Vec<IngressTlsView>,
        /// Where all other traffic goes.
        pub backend: BackendView,
        /// Where traffic goes, by host.
        pub rules: Vec<IngressRuleView>,
    }

    /// Certificates of some hosts.
    pub struct IngressTlsView {
        /// The name of their Secret.
        pub secret_name: String,
    }

    /// A rule for a host.
    pub struct IngressRuleView {
        /// The host; empty for any.
        pub host: String,
        /// Its paths.
        pub http: IngressPathsView,
    }

    /// The paths of a rule.
    pub struct IngressPathsView {
        /// The paths.
        pub paths: Vec<IngressPathView>,
    }

    /// A path of a rule.
    pub struct IngressPathView {
        /// The path.
        pub path: String,
        /// Where its traffic goes.
        pub backend: BackendView,
    }

    /// Where traffic goes.
    pub struct BackendView {
        /// The name of the Service in former versions of the API.
        pub service_name: String,
        /// The Service.
        pub service: ServiceBackendView,
    }

    /// A Service that traffic goes to.
    pub struct ServiceBackendView {
        /// Its name.
        pub name: String,
    }

    /// The observed state of what has a load balancer.
    pub struct BalancedStatusView {
        /// The load balancer.
        pub load_balancer: LoadBalancerView,
    }

    /// A load balancer.
    pub struct LoadBalancerView {
        /// Its addresses.
        pub ingress: Vec<BalancerAddressView>,
    }

    /// An address of a load balancer.
    pub struct BalancerAddressView {
        /// A name.
        pub hostname: String,
        /// An IP address.
        pub ip: String,
    }

    /// A Service.
    pub struct ServiceView {
        /// The desired state.
        pub spec: ServiceSpecView,
        /// The observed state.
        pub status: BalancedStatusView,
    }

    /// The desired state of a Service.
    pub struct ServiceSpecView {
        /// Such as `LoadBalancer`.
        #[serde(rename = "type")]
        pub type_: String,
        /// The labels of its Pods.
        pub selector: BTreeMap<String, String>,
    }

    /// A Gateway.
    pub struct GatewayView {
        /// The desired state.
        pub spec: GatewaySpecView,
        /// The observed state.
        pub status: GatewayStatusView,
    }

    /// The desired state of a Gateway.
    pub struct GatewaySpecView {
        /// What it listens to.
        pub listeners: Vec<ListenerView>,
    }

    /// A listener of a Gateway.
    pub struct ListenerView {
        /// Such as `HTTPS`.
        pub protocol: String,
        /// The port.
        pub port: Option<u64>,
        /// The host; empty for any.
        pub hostname: String,
    }

    /// The observed state of a Gateway.
    pub struct GatewayStatusView {
        /// Its addresses.
        pub addresses: Vec<GatewayAddressView>,
    }

    /// An address of a Gateway.
    pub struct GatewayAddressView {
        /// `Hostname` for a name.
        #[serde(rename = "type")]
        pub type_: String,
        /// The address.
        pub value: String,
    }

    /// A route of the Gateway API.
    pub struct RouteView {
        /// The desired state.
        pub spec: RouteSpecView,
    }

    /// The desired state of a route.
    pub struct RouteSpecView {
        /// The Gateways that it belongs to.
        pub parent_refs: Vec<RouteReference>,
        /// Where traffic goes.
        pub rules: Vec<RouteRuleView>,
    }

    /// A rule of a route.
    pub struct RouteRuleView {
        /// Where its traffic goes.
        pub backend_refs: Vec<RouteReference>,
    }

    /// An object that a route refers to; what is absent has a default.
    pub struct RouteReference {
        /// API group.
        pub group: Option<String>,
        /// Kind.
        pub kind: Option<String>,
        /// Namespace.
        pub namespace: Option<String>,
        /// Name.
        pub name: String,
    }

    /// A VirtualService of Istio.
    pub struct VirtualServiceView {
        /// The desired state.
        pub spec: VirtualServiceSpecView,
    }

    /// The desired state of a VirtualService.
    pub struct VirtualServiceSpecView {
        /// Routes of HTTP.
        pub http: Vec<HttpRouteView>,
    }

    /// A route of HTTP.
    pub struct HttpRouteView {
        /// Where traffic goes.
        pub route: Vec<RouteDestinationView>,
    }

    /// A weighted destination.
    pub struct RouteDestinationView {
        /// The destination.
        pub destination: DestinationHostView,
    }

    /// A destination.
    pub struct DestinationHostView {
        /// The name of a Service, with its namespace or without.
        pub host: String,
    }

    /// A ServiceEntry of Istio.
    pub struct ServiceEntryView {
        /// The desired state.
        pub spec: ServiceEntrySpecView,
    }

    /// The desired state of a ServiceEntry.
    pub struct ServiceEntrySpecView {
        /// The workloads that it stands for.
        pub workload_selector: WorkloadSelectorView,
    }

    /// Workloads by their labels.
    pub struct WorkloadSelectorView {
        /// The labels.
        pub labels: BTreeMap<String, String>,
    }
}
