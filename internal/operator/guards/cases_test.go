package guards

import (
	"fmt"
	"slices"
)

// before returns objects of the cluster that are older than its guards, good ones
// and bad ones.
func before() []string {
	return []string{
		`{apiVersion: v1, kind: Namespace, metadata: {name: metal}}`,
		bmh("cp-1", cpRole, "'baremetalhost.metal3.io/detached': ''", "redfish+https://10.99.0.111:443/redfish/v1/Systems/1", good),
		bmh("loose", cpRole, "", "redfish+https://10.99.0.222/redfish/v1/Systems/1", "online: true"),
		bmh("compute", workerRole, "", "redfish+https://10.99.0.120/redfish/v1/Systems/1", "online: true"),
		`{apiVersion: operator.openshift.io/v1, kind: Etcd, metadata: {name: cluster}, spec: {managementState: Managed,
			unsupportedConfigOverrides: {useExternalEtcdSupport: true, useUnsupportedUnsafeEtcdContainerRemoval: "true"}}}`,
		nhc("everything", "{}"),
		nhc("compute", notControlPlanes),
		`{apiVersion: remediation.medik8s.io/v1alpha1, kind: NodeHealthCheck, metadata: {name: ending, finalizers: [holdfast.io/test]}, spec: {selector: {}}}`,
		`{apiVersion: self-node-remediation.medik8s.io/v1alpha1, kind: SelfNodeRemediation, metadata: {namespace: metal, name: cp-1}, spec: {}}`,
		`{apiVersion: self-node-remediation.medik8s.io/v1alpha1, kind: SelfNodeRemediation, metadata: {namespace: metal, name: cp-2, finalizers: [holdfast.io/test]}}`,
		`{apiVersion: self-node-remediation.medik8s.io/v1alpha1, kind: SelfNodeRemediationConfig, metadata: {namespace: metal, name: agents}, spec: {}}`,
		`{apiVersion: hypershift.openshift.io/v1beta1, kind: HostedCluster, metadata: {namespace: metal, name: guest}, spec: {}}`,
		pool("master", "node-role.kubernetes.io/master", ""),
		pool("worker", "node-role.kubernetes.io/worker", ""),
		pool("fast", "node-role.kubernetes.io/control-plane", "maxUnavailable: 2, paused: true"),
	}
}

func matrix() []attempt {
	return slices.Concat(etcdCases(), topologyCases(), hostCases(), bmcCases(), remediationCases(), clusterCases())
}

const (
	etcdObject = `{apiVersion: operator.openshift.io/v1, kind: Etcd, metadata: {name: cluster}, spec: {managementState: Managed}}`
	etcdSpec   = `{apiVersion: operator.openshift.io/v1, kind: Etcd, metadata: {name: cluster}, spec: {managementState: Managed, unsupportedConfigOverrides: %s}}`
	both       = `{useExternalEtcdSupport: true, useUnsupportedUnsafeEtcdContainerRemoval: true}`
	oneWay     = "on a control plane goes back"
)

func etcdCases() []attempt {
	patch := func(overrides string) string { return `{"spec":{"unsupportedConfigOverrides":` + overrides + `}}` }
	return []attempt{
		{"etcd is taken back at once", patches, etcdObject, patch(`null`), oneWay},
		{"one field is taken out", patches, etcdObject, patch(`{"useExternalEtcdSupport":null}`), oneWay},
		{"the other one is", patches, etcdObject, patch(`{"useUnsupportedUnsafeEtcdContainerRemoval":null}`), oneWay},
		{"a field becomes false", patches, etcdObject, patch(`{"useExternalEtcdSupport":false}`), oneWay},
		{"a field that some spell as a text becomes another one", patches, etcdObject, patch(`{"useUnsupportedUnsafeEtcdContainerRemoval":"false"}`), oneWay},
		{"a field that is spelled as a text becomes true", patches, etcdObject, patch(`{"useUnsupportedUnsafeEtcdContainerRemoval":true}`), ""},
		{"a field becomes something else", patches, etcdObject, patch(`{"useExternalEtcdSupport":{"a":1}}`), oneWay},
		{"the whole object is replaced by one without", updates, etcdObject, "", oneWay},
		{"the whole object is replaced by one with", updates, fmt.Sprintf(etcdSpec, both), "", ""},
		{"applied with false", applies, fmt.Sprintf(etcdSpec, `{useExternalEtcdSupport: false}`), "", oneWay},
		{"applied with both", applies, fmt.Sprintf(etcdSpec, both), "", ""},
		{"other overrides", patches, etcdObject, patch(`{"another":1}`), ""},
		{"the log level", patches, etcdObject, `{"spec":{"logLevel":"Debug"}}`, ""},
		{"a status without conditions changes no spec", patchesStatus, etcdObject, `{"spec":{"unsupportedConfigOverrides":null},"status":{"readyReplicas":2}}`, ""},
		{"deleted", deletes, etcdObject, "", oneWay},
		{"deleted with all others", deletesAll, etcdObject, "", oneWay},
		{"deleted with its kind", deletes, crd("etcds.operator.openshift.io"), "", "operators would stop or start over"},
		{"deleted with the kind of the topology", deletesAll, crd("infrastructures.config.openshift.io"), "", "operators would stop or start over"},
		{"another kind is deleted", deletes, crd("hostedclusters.hypershift.openshift.io"), "", ""},
		{"a label on its kind", patches, crd("etcds.operator.openshift.io"), `{"metadata":{"labels":{"a":"b"}}}`, ""},
	}
}

const infra = `{apiVersion: config.openshift.io/v1, kind: Infrastructure, metadata: {name: cluster}}`

func topologyCases() []attempt {
	status := func(field, value string) string { return fmt.Sprintf(`{"status":{%q:%s}}`, field, value) }
	const settled = "is not changed by hand"
	return []attempt{
		{"another control plane topology", patchesStatus, infra, status("controlPlaneTopology", `"HighlyAvailable"`), settled},
		{"no control plane topology, for which the schema has a default", patchesStatus, infra, status("controlPlaneTopology", `null`), settled},
		{"another infrastructure topology", patchesStatus, infra, status("infrastructureTopology", `"SingleReplica"`), settled},
		{"another one applied", appliesStatus, `{apiVersion: config.openshift.io/v1, kind: Infrastructure, metadata: {name: cluster},
			status: {controlPlaneTopology: SingleReplica, infrastructureTopology: HighlyAvailable, cpuPartitioning: None}}`, "", settled},
		{"the same applied", appliesStatus, `{apiVersion: config.openshift.io/v1, kind: Infrastructure, metadata: {name: cluster},
			status: {controlPlaneTopology: DualReplica, infrastructureTopology: HighlyAvailable, cpuPartitioning: None}}`, "", ""},
		{"the rest of the status", patchesStatus, infra, status("etcdDiscoveryDomain", `"example.test"`), ""},
		{"a status through the object itself is dropped", patches, infra, status("controlPlaneTopology", `"SingleReplica"`), ""},
		{"an annotation", patches, infra, `{"metadata":{"annotations":{"a":"b"}}}`, ""},
		{"deleted", deletes, infra, "", "every operator stops"},
		{"deleted with all others", deletesAll, infra, "", "every operator stops"},
	}
}

const (
	cpRole     = "'installer.openshift.io/role': control-plane"
	workerRole = "'installer.openshift.io/role': worker"
	detach     = "'baremetalhost.metal3.io/detached': ''"
	good       = "online: true, externallyProvisioned: true"
	elsewhere  = "redfish+https://10.99.0.130/redfish/v1/Systems/1"
)

func bmh(name, labels, annotations, bmc, spec string) string {
	return fmt.Sprintf(`{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, metadata: {namespace: metal, name: %s, labels: {%s}, annotations: {%s}},
		spec: {bmc: {address: %q, credentialsName: x}, %s}}`, name, labels, annotations, bmc, spec)
}

func crd(name string) string {
	return fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %s}}`, name)
}

const (
	notDetached    = "is not detached"
	notOnline      = "spec.online must be true"
	notProvisioned = "spec.externallyProvisioned must be true"
	reboots        = "reboots a control plane"
	inspects       = "boots a control plane into an inspection"
	switchesOff    = "switches the host off"
)

// hostCases are the changes of a control plane's BareMetalHost.
func hostCases() []attempt {
	annotate := func(key, value string) string {
		return fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, value)
	}
	const detached = "baremetalhost.metal3.io/detached"
	cp1, loose, compute := bmh("cp-1", "", "", "", ""), bmh("loose", "", "", "", ""), bmh("compute", "", "", "", "")
	return []attempt{
		{"a control plane, detached", creates, bmh("new", cpRole, detach, elsewhere, good), "", ""},
		{"a control plane, not detached", creates, bmh("new", cpRole, "", elsewhere, good), "", notDetached},
		{"the same, applied", applies, bmh("new", cpRole, "", elsewhere, good), "", notDetached},
		{"a control plane that would be switched off once attached", creates, bmh("new", cpRole, detach, elsewhere, "online: false, externallyProvisioned: true"), "", notOnline},
		{"a control plane that would be provisioned", creates, bmh("new", cpRole, detach, elsewhere, "online: true"), "", notProvisioned},
		{"a control plane that would reboot", creates, bmh("new", cpRole, detach+", 'reboot.metal3.io/me': ''", elsewhere, good), "", reboots},
		{"a control plane without a spec", creates, `{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, metadata: {namespace: metal, name: cp-2}}`, "", notDetached},
		{"the annotation is taken off", patches, cp1, annotate(detached, `null`), notDetached},
		{"all annotations are", patches, cp1, `{"metadata":{"annotations":null}}`, notDetached},
		{"the host is replaced by one without", updates, bmh("cp-1", cpRole, "", elsewhere, good), "", notDetached},
		{"the host is replaced by one with", updates, bmh("cp-1", cpRole, detach, elsewhere, good), "", ""},
		{"applied without annotations: who put them there keeps them", applies, bmh("cp-1", cpRole, "", elsewhere, good), "", ""},
		{"its power is switched", patches, cp1, `{"spec":{"online":false}}`, notOnline},
		{"its power is no longer spoken of", patches, cp1, `{"spec":{"online":null}}`, notOnline},
		{"it is to be provisioned", patches, cp1, `{"spec":{"externallyProvisioned":false}}`, notProvisioned},
		{"it reboots", patches, cp1, annotate("reboot.metal3.io", `""`), reboots},
		{"it reboots hard", patches, cp1, annotate("reboot.metal3.io/x", `"{\"mode\":\"hard\"}"`), reboots},
		{"it is inspected", patches, cp1, annotate("inspect.metal3.io", `""`), inspects},
		{"it is not inspected", patches, cp1, annotate("inspect.metal3.io", `"disabled"`), ""},
		{"it is called a worker", patches, cp1, `{"metadata":{"labels":{"installer.openshift.io/role":"worker"},"annotations":{"baremetalhost.metal3.io/detached":null}}}`, notDetached},
		{"another annotation", patches, cp1, annotate("a", `"b"`), ""},
		{"a reason for the detachment", patches, cp1, annotate(detached, `"two-node"`), ""},
		{"its status", patchesStatus, cp1, `{"status":{"poweredOn":false}}`, ""},
		{"a status with an annotation, which the API server drops", patchesStatus, cp1, annotate("reboot.metal3.io", `""`), ""},
		{"deleted, detached", deletes, cp1, "", ""},
		{"deleted, not detached", deletes, loose, "", switchesOff},
		{"deleted with all others, not detached", deletesAll, loose, "", switchesOff},
		{"one that is older than the guard is touched", patches, loose, annotate("a", `"b"`), notDetached},
		{"one that is older than the guard is detached", patches, loose, annotate(detached, `""`), ""},
		{"a compute host reboots", patches, compute, annotate("reboot.metal3.io", `""`), ""},
		{"a compute host is switched off", patches, compute, `{"spec":{"online":false}}`, ""},
		{"a compute host is deleted", deletes, compute, "", ""},
		{"a compute host is given the BMC of a control plane", patches, compute, `{"spec":{"bmc":{"address":"https://10.99.0.112/redfish/v1/Systems/1"}}}`, notDetached},
	}
}

// bmcCases are the ways in which a control plane is recognised.
func bmcCases() []attempt {
	address := func(name, text, refused string) attempt {
		return attempt{name, creates, bmh("any", "", "", text, "online: true"), "", refused}
	}
	worker := func(name, text, refused string) attempt {
		return attempt{name, creates, bmh("any", workerRole, "", text, "online: true"), "", refused}
	}
	return []attempt{
		{"by the name of its node", creates, bmh("cp-2", workerRole, "", elsewhere, "online: true"), "", notDetached},
		{"a longer name is another node's", creates, bmh("cp-22", "", "", elsewhere, "online: true"), "", ""},
		{"a host without a BMC has no power to switch", creates, bmh("any", "", "", "", "online: true"), "", ""},
		{"a BMC that is null is none", creates, `{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, metadata: {namespace: metal, name: any}, spec: {bmc: null}}`, "", ""},
		{"the role is master", creates, bmh("any", "'installer.openshift.io/role': master", "", elsewhere, "online: true"), "", notDetached},
		address("by its BMC", "redfish+https://10.99.0.111/redfish/v1/Systems/1", notDetached),
		address("by its BMC's other port", "idrac-redfish://10.99.0.111:8443/redfish/v1/Systems/1", notDetached),
		address("by its BMC over IPMI", "ipmi://10.99.0.111:623", notDetached),
		address("by its BMC without a scheme", "10.99.0.112", notDetached),
		address("by its BMC in capitals and with a user", "REDFISH://admin@10.99.0.112/", notDetached),
		address("by another system of its BMC: nobody says whose", "https://10.99.0.111/redfish/v1/Systems/2", notDetached),
		address("another address of the same family is another BMC", "redfish+https://10.99.0.11/redfish/v1/Systems/1", ""),
		address("an address of the other family may be the same BMC", "redfish+https://[fd99::6f]/redfish/v1/Systems/1", notDetached),
		address("an address of the other family without brackets too", "fd99::6f", notDetached),
		address("a name may be the same BMC", "redfish+https://bmc-7.example.test/redfish/v1/Systems/1", notDetached),
		address("what is no address may be anything", "redfish+https://[::zz]/redfish/v1/Systems/1", notDetached),
		worker("a name is not, of a host that is called a worker", "redfish+https://bmc-7.example.test/redfish/v1/Systems/1", ""),
		worker("the other family is not either", "redfish+https://[fd99::6f]/redfish/v1/Systems/1", ""),
		worker("another system of a control plane's BMC is a worker's", "https://10.99.0.111/redfish/v1/Systems/2", ""),
		worker("the same system is not", "https://10.99.0.111/redfish/v1/Systems/1/", notDetached),
		worker("nor is the BMC without a system", "ipmi://10.99.0.111", notDetached),
		{"a host by name is called a worker afterwards", creates, bmh("any", workerRole, "", "ipmi://bmc-7", "online: true"), "", ""},
	}
}

const (
	notControlPlanes = "{matchExpressions: [{key: node-role.kubernetes.io/control-plane, operator: DoesNotExist}]}"
	selectsThem      = "may select a control plane"
	ofThem           = "this remediation is of a control plane"
)

func nhc(name, selector string) string {
	return fmt.Sprintf(`{apiVersion: remediation.medik8s.io/v1alpha1, kind: NodeHealthCheck, metadata: {name: %s}, spec: {selector: %s}}`, name, selector)
}

func remediation(kind, name, node string) string {
	group := map[string]string{"SelfNodeRemediation": "self-node-remediation", "FenceAgentsRemediation": "fence-agents-remediation"}[kind]
	return fmt.Sprintf(`{apiVersion: %s.medik8s.io/v1alpha1, kind: %s, metadata: {namespace: metal, name: %s, annotations: {%s}}, spec: {}}`, group, kind, name, node)
}

func template(parameters string) string {
	return fmt.Sprintf(`{apiVersion: fence-agents-remediation.medik8s.io/v1alpha1, kind: FenceAgentsRemediationTemplate, metadata: {namespace: metal, name: new},
		spec: {template: {spec: {agent: fence_ipmilan, nodeparameters: %s}}}}`, parameters)
}

func remediationCases() []attempt {
	const snr, far, byNode = "SelfNodeRemediation", "FenceAgentsRemediation", "'remediation.medik8s.io/node-name': "
	agents := `{apiVersion: self-node-remediation.medik8s.io/v1alpha1, kind: SelfNodeRemediationConfig, metadata: {namespace: metal, name: %s}, spec: {}}`
	return []attempt{
		{"a check of every node", creates, nhc("new", "{}"), "", selectsThem},
		{"a check without a selector", creates, nhc("new", "null"), "", selectsThem},
		{"a check of workers, which control planes may be too", creates, nhc("new", "{matchLabels: {'node-role.kubernetes.io/worker': ''}}"), "", selectsThem},
		{"a check of control planes", applies, nhc("new", "{matchExpressions: [{key: node-role.kubernetes.io/control-plane, operator: Exists}]}"), "", selectsThem},
		{"a check that excludes them", creates, nhc("new", notControlPlanes), "", ""},
		{"a check that excludes them by the older label", applies, nhc("new", "{matchExpressions: [{key: node-role.kubernetes.io/master, operator: DoesNotExist}]}"), "", ""},
		{"a check is widened", patches, nhc("compute", "{}"), `{"spec":{"selector":{"matchExpressions":[]}}}`, selectsThem},
		{"a check is mended", updates, nhc("everything", notControlPlanes), "", ""},
		{"a check's status", patchesStatus, nhc("everything", "{}"), `{"status":{"phase":"Enabled"}}`, ""},
		{"a check is deleted", deletes, nhc("everything", "{}"), "", ""},
		{"a check ends", patches, nhc("ending", "{}"), `{"metadata":{"finalizers":null}}`, ""},
		{"SelfNodeRemediation of a control plane", creates, remediation(snr, "cp-2-x", byNode+"cp-2"), "", ofThem},
		{"FenceAgentsRemediation of a control plane", creates, remediation(far, "cp-1", ""), "", ofThem},
		{"FenceAgentsRemediation of a control plane, applied", applies, remediation(far, "cp-2", ""), "", ofThem},
		{"SelfNodeRemediation of a compute host", creates, remediation(snr, "compute-1", ""), "", ""},
		{"FenceAgentsRemediation of a compute host", applies, remediation(far, "x", byNode+"compute-1"), "", ""},
		{"one that is older than the guard goes on", patches, remediation(snr, "cp-1", ""), `{"spec":{"remediationStrategy":"Automatic"}}`, ofThem},
		{"one that is older than the guard is deleted", deletes, remediation(snr, "cp-1", ""), "", ""},
		{"one that is older than the guard ends", patches, remediation(snr, "cp-2", ""), `{"metadata":{"finalizers":null}}`, ""},
		{"a template with a control plane's BMC", creates, template(`{"--ip": {cp-1: 10.99.0.111, compute-1: 10.99.0.120}}`), "", "names a control plane"},
		{"a template with compute hosts' BMCs", creates, template(`{"--ip": {compute-1: 10.99.0.120}}`), "", ""},
		{"a template without any", applies, template(`{}`), "", ""},
		{"agents that reboot their own host", creates, fmt.Sprintf(agents, "new"), "", "runs an agent on every host"},
		{"agents that are older than the guard", patches, fmt.Sprintf(agents, "agents"), `{"spec":{"apiCheckInterval":"15s"}}`, ""},
		{"agents are deleted", deletes, fmt.Sprintf(agents, "agents"), "", ""},
	}
}

func pool(name, role, spec string) string {
	if spec != "" {
		spec += ", "
	}
	return fmt.Sprintf(`{apiVersion: machineconfiguration.openshift.io/v1, kind: MachineConfigPool, metadata: {name: %s},
		spec: {%snodeSelector: {matchLabels: {%s: ''}}}}`, name, spec, role)
}

func clusterCases() []attempt {
	const master, compute = "node-role.kubernetes.io/master", "node-role.kubernetes.io/worker"
	const one, hosted = "spec.maxUnavailable must be 1", "does not host others"
	guest := `{apiVersion: hypershift.openshift.io/v1beta1, kind: HostedCluster, metadata: {namespace: metal, name: %s}, spec: {}}`
	anyHost := `{apiVersion: machineconfiguration.openshift.io/v1, kind: MachineConfigPool, metadata: {name: new}, spec: {maxUnavailable: 2%s}}`
	fast := pool("fast", "node-role.kubernetes.io/control-plane", "")
	set := func(value string) string { return `{"spec":{"maxUnavailable":` + value + `}}` }
	return []attempt{
		{"a hosted cluster", creates, fmt.Sprintf(guest, "new"), "", hosted},
		{"a hosted cluster, applied", applies, fmt.Sprintf(guest, "new"), "", hosted},
		{"one that is older than the guard changes", patches, fmt.Sprintf(guest, "guest"), `{"spec":{"a":1}}`, ""},
		{"one that is older than the guard is deleted", deletes, fmt.Sprintf(guest, "guest"), "", ""},
		{"both control planes at once", patches, pool("master", master, ""), set(`2`), one},
		{"half of them", patches, pool("master", master, ""), set(`"50%"`), one},
		{"all of them", applies, pool("master", master, "maxUnavailable: 100%"), "", one},
		{"none, which is one", patches, pool("master", master, ""), set(`0`), one},
		{"one", patches, pool("master", master, ""), set(`1`), ""},
		{"as it is by default", updates, pool("master", master, ""), "", ""},
		{"two, paused", patches, pool("master", master, ""), `{"spec":{"maxUnavailable":2,"paused":true}}`, ""},
		{"two, no longer paused", patches, fast, `{"spec":{"paused":false}}`, one},
		{"one, no longer paused", patches, fast, `{"spec":{"paused":false,"maxUnavailable":1}}`, ""},
		{"another pool of control planes", creates, pool("new", "node-role.kubernetes.io/control-plane", "maxUnavailable: 2"), "", one},
		{"the pool of that name without a selector", creates, `{apiVersion: machineconfiguration.openshift.io/v1, kind: MachineConfigPool, metadata: {name: new},
			spec: {maxUnavailable: 2, nodeSelector: {matchExpressions: [{key: node-role.kubernetes.io/master, operator: Exists}]}}}`, "", one},
		{"a pool of any host", creates, fmt.Sprintf(anyHost, ""), "", one},
		{"a pool of hosts of one zone", creates, fmt.Sprintf(anyHost, ", nodeSelector: {matchLabels: {zone: a}}"), "", one},
		{"compute hosts, three at once", patches, pool("worker", compute, ""), set(`3`), ""},
		{"compute hosts, a third at once", creates, pool("new", "node-role.kubernetes.io/infra", "maxUnavailable: 33%"), "", ""},
		{"its status", patchesStatus, pool("master", master, ""), `{"status":{"machineCount":2}}`, ""},
		{"deleted", deletes, pool("worker", compute, ""), "", ""},
	}
}
