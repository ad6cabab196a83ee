// Package lb holds tests of the API's load balancer and of the redirect to it:
// real haproxy and nftables on hosts that are network namespaces, with the
// agent's own pieces and sources, and API servers that can be made to fail in
// every way.
//
// Not shown here, and why: kube-proxy with IPVS and CNIs that balance in eBPF
// (Cilium, Calico), since this kernel has no IPVS and those are not in a release;
// for the latter the port is translated and never the address (B37). firewalld is
// shown by its rules, not by its daemon. Forty thousand connections and ten
// thousand watches are four thousand each: a process has twenty thousand files.
// haproxy killed for want of memory is shown as killed (hard case 3).
package lb
