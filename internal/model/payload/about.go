package payload

import "slices"

// About is what a release says of itself beside its contents, for those who decide
// whether a site may go to it and return from it. A build writes it into the
// release. A reader ignores fields that it does not know.
type About struct {
	Kubernetes string `json:"kubernetes"`
	Etcd       string `json:"etcd"`
	// LeastEtcd is the oldest etcd that is safe beside this release, and to return to.
	LeastEtcd string `json:"leastEtcd"`
	// Least is the oldest version of Holdfast from which an upgrade to this release
	// may begin.
	Least string `json:"least"`
	// Formats are those of ours that outlive a process, or that one program writes and
	// another one reads.
	Formats []Format `json:"formats"`
	// Steps is the range of numbers of a step's input that agent and operator speak.
	Steps Numbers `json:"steps"`
	// Network names what hosts say to each other on the wire. Hosts of two releases
	// with one name understand each other.
	Network string `json:"network"`
	// StoredVersions lists the versions that the release reads of each kind that it
	// brings to the API, as NAME/VERSION, sorted. NAME is that of the CRD.
	StoredVersions []string `json:"storedVersions"`
	// Stack lists the packages below etcd whose versions the release fixes, as
	// NAME=VERSION. It is empty for a release that leaves them to the distribution;
	// StackNames has their names then.
	Stack []string `json:"stack,omitempty"`
	// StackNames are the names of those packages for apt.
	StackNames []string `json:"stackNames"`
	// Arguments are those that the release gives the programs of a control plane on every
	// site: by program, and there by name without dashes. An older release lists none.
	Arguments map[string]map[string]string `json:"arguments,omitempty"`
}

// Has reports whether the release has a format of ours.
func (a About) Has(format string) bool {
	return slices.ContainsFunc(a.Formats, func(f Format) bool { return f.Name == format })
}

// Numbers is a range of numbers of a format, both ends included.
type Numbers struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// Format is one of our own formats.
type Format struct {
	Name  string  `json:"name"`
	Reads Numbers `json:"reads"`
	// Writes is the number that the release writes until its own upgrade is committed.
	Writes int `json:"writes"`
	// Strict is true if a reader refuses a field that it does not know: a later release
	// may add none before its commit.
	Strict bool `json:"strict,omitempty"`
	// Unnumbered is true if the format has no number in it. 1 stands for its present
	// form; a form that a reader of today would misunderstand needs another name.
	Unnumbered bool `json:"unnumbered,omitempty"`
}

// The names of formats of which hosts and the operator say what lies on a disk.
const (
	// FormatRecord is etcd's record of a host, beside its data.
	FormatRecord = "etcd-record"
	// FormatStatement is what a host publishes to its peer about its etcd.
	FormatStatement = "statement"
	// FormatJournal is the journal of a host's way to a release.
	FormatJournal = "upgrade-journal"
	// FormatAnnotations are those of a node about an upgrade.
	FormatAnnotations = "upgrade-annotations"
	// FormatFolder is release.json in the folder of a release on a host.
	FormatFolder = "release-folder"
	// FormatStep is the input of a step for two control planes.
	FormatStep = "step-input"
	// FormatReplacement is the plan by which a lost host is replaced.
	FormatReplacement = "replacement-plan"
	// FormatRollout are the fields about parts in the record of an upgrade: what is awaited,
	// and that parts went back by themselves.
	FormatRollout = "upgrade-rollout"
	// FormatHostFiles is what a release says of the files that it brings to a host. A release
	// without it says nothing of them.
	FormatHostFiles = "host-files"
	// FormatBackup is the form of an archive and of the entry of a backup.
	FormatBackup = "backup"
)

// The numbers that a test compares with the constants of the code.
const (
	// LeastEtcd: since 3.6.12 a member that is updated is not promoted by that, and a
	// member can be added while another one is down (docs/adr/0078-releases.md).
	leastEtcd = "v3.6.12"
	// leastHoldfast: every release that says what it is has readers that leave out
	// fields which they do not know; one that says nothing is refused anyway.
	leastHoldfast = "v0.0.0"
	// network is raised by hand when hosts say something else to each other: VRRP's
	// version, ids, priorities and intervals, the overlay of pods, its MTU, the ports.
	network = "1"
)

// Steps is the range of numbers of a step's input that this release speaks.
var Steps = Numbers{Min: 1, Max: 1}

// Present returns what this release says of itself, but for Arguments: those are
// render/kubeadm's, and the build adds them.
func Present() About {
	return About{
		Kubernetes: KubernetesVersion, Etcd: EtcdVersion, LeastEtcd: leastEtcd, Least: leastHoldfast,
		Formats: formats(), Steps: Steps, Network: network, StoredVersions: storedVersions(), StackNames: stackNames(),
	}
}

// formats lists every format of ours that a second release may meet.
func formats() []Format {
	numbered := func(name string) Format { return Format{Name: name, Reads: Numbers{1, 1}, Writes: 1} }
	plain := func(name string) Format { f := numbered(name); f.Unnumbered = true; return f }
	strict := func(name string) Format { f := plain(name); f.Strict = true; return f }
	return []Format{
		numbered(FormatRecord),
		numbered(FormatStatement),
		numbered(FormatStep),
		numbered(FormatJournal),
		numbered(FormatAnnotations),
		numbered(FormatFolder),
		numbered(FormatReplacement),
		numbered(FormatBackup),
		plain(FormatRollout),          // ConfigMap kube-system/holdfast-upgrade
		plain("fence-evidence"),       // /run/holdfast/fenced/NODE.json
		plain("fence-history"),        // history.jsonl and confirmations.jsonl
		plain("fencing-device"),       // /etc/holdfast/fencing/NODE.json
		plain("confirmation"),         // /run/holdfast/confirmation.json
		plain("etcd-wish"),            // /run/holdfast/etcd/wish.json
		plain("etcd-parameters"),      // Pacemaker's parameters, as a host remembers them
		plain("cib-parameters"),       // those of the resource agents in the CIB
		plain("events"),               // /var/lib/holdfast/events/*.jsonl
		plain("incidents"),            // reports in files and ConfigMaps
		plain("host-report"),          // /run/holdfast and the annotation holdfast.io/doctor
		plain("node-annotations"),     // every other annotation of a node
		plain("machine-config"),       // journal.json, originals.json
		plain("updates"),              // request.json and record.json
		plain("apply-journal"),        // /var/lib/holdfast/apply/state.json
		plain("network-view"),         // nodes.json, settings.json, bmc-names.json
		plain("site"),                 // /etc/holdfast/site.json
		plain("backup-request"),       // /run/holdfast/backup/request.yaml and state.json
		plain("rotation-annotations"), // where an authority's replacement stands
		plain("backup-journal"),       // journal.json and wish.json in /var/lib/holdfast/backup
		plain("keeper-socket"),        // what the etcd keeper answers on its host
		plain("peer-link"),            // what the keepers of two hosts ask each other
		plain(FormatHostFiles),        // what the agents of two releases say for an upgrade, and lists in its folder
		strict("encryption-file"),     // the API server's EncryptionConfiguration, as written
		strict("etcd-pod"),            // the manifest of an etcd that Pacemaker starts
		strict("stand-in-request"),    // read by the stand-in of the same release alone
	}
}

// storedVersions lists the versions of the kinds that an installation brings, as the
// API serves them.
func storedVersions() []string {
	return []string{
		"backendtlspolicies.gateway.networking.k8s.io/v1",
		"backups.config.openshift.io/v1alpha1",
		"clusteroperators.config.openshift.io/v1",
		"clusterversions.config.openshift.io/v1",
		"containerruntimeconfigs.machineconfiguration.openshift.io/v1",
		"dnses.config.openshift.io/v1",
		"etcds.operator.openshift.io/v1",
		"featuregates.config.openshift.io/v1",
		"gatewayclasses.gateway.networking.k8s.io/v1",
		"gatewayclasses.gateway.networking.k8s.io/v1beta1",
		"gateways.gateway.networking.k8s.io/v1",
		"gateways.gateway.networking.k8s.io/v1beta1",
		"grpcroutes.gateway.networking.k8s.io/v1",
		"httproutes.gateway.networking.k8s.io/v1",
		"httproutes.gateway.networking.k8s.io/v1beta1",
		"imagedigestmirrorsets.config.openshift.io/v1",
		"imagetagmirrorsets.config.openshift.io/v1",
		"infrastructures.config.openshift.io/v1",
		"ingresscontrollers.operator.openshift.io/v1",
		"ingresses.config.openshift.io/v1",
		"kubeletconfigs.machineconfiguration.openshift.io/v1",
		"machineconfigpools.machineconfiguration.openshift.io/v1",
		"machineconfigs.machineconfiguration.openshift.io/v1",
		"machineconfigurations.operator.openshift.io/v1",
		"networks.config.openshift.io/v1",
		"pacemakerclusters.etcd.openshift.io/v1",
		"proxies.config.openshift.io/v1",
		"referencegrants.gateway.networking.k8s.io/v1",
		"referencegrants.gateway.networking.k8s.io/v1beta1",
		"routehosts.holdfast.io/v1",
		"schedulers.config.openshift.io/v1",
		"tlsroutes.gateway.networking.k8s.io/v1",
	}
}

// stackNames returns the packages below etcd.
func stackNames() []string {
	var out []string
	for _, p := range extensionPackages[ExtensionTwoNodeHA] {
		out = append(out, p.apt)
	}
	return append(out, "runc")
}
