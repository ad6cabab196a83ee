// Package grow gives the lone control plane of a site, and its cluster, what those of two
// control planes have (docs/adr/0092). decide/grow says which site that is.
//
// The host gets packages, files and units first, and site.json last: that file says to
// holdfast-agent that the host is one of two. So a cut leaves a lone host, which the next
// run completes, or one of two. Package grow starts the etcd keeper and nothing else of the
// two-node set-up, and it does not restart holdfast-agent.
//
// How each object of the cluster is changed:
//
//	| object | way | why |
//	|---|---|---|
//	| rights of agents and of the operator | Bring | they belong to the release, as in an upgrade |
//	| Secrets with accounts of BMCs | Bring | the file is the newest that a person says of them |
//	| Etcd, the guards | Make | the operator changes them as soon as they are there |
//	| ConfigMap of the install-config, FeatureGate, Infrastructure | Set | only the fields that differ; the rest is as people and the operator left it |
//	| default IngressController | Offer | only where nobody has changed the field: one more router is no must |
package grow
