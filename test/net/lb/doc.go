// Package lb holds tests of the API's load balancer and of the redirect to it:
// real haproxy and nftables on hosts that are network namespaces, with the
// agent's own reconcilers and sources, and API servers that can be made to fail
// in every way.
//
// These cases are not shown here. kube-proxy with IPVS: this kernel has no
// IPVS. CNIs that balance in eBPF (Cilium, Calico): a release does not have
// them; for them the port is translated and never the address (B37). firewalld
// is shown by its rules, not by its daemon. Forty thousand connections and ten
// thousand watches are four thousand each, because a process has twenty
// thousand files. A haproxy that is killed for lack of memory is shown as
// killed (hard case 3).
package lb
