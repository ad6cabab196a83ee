// Package restore decides which keys of a backup of etcd the new life of a site keeps.
//
// A restore is an installation whose etcd begins with the data of a backup. So it leaves out
// everything that an installation makes anew, and everything of hosts and moments that are
// gone: a node of other hardware, a lease without a holder, the mark of a fence that is over.
// Objects that would act on the past before a person has looked are stopped, and named.
// Everything else stays as it was.
package restore

import (
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/site"
)

// Root begins every key of the API server in etcd.
const Root = "/registry/"

// Fate says what a restore does with a key.
type Fate string

// The fates.
const (
	// Keep leaves the key as it is.
	Keep Fate = "keep"
	// Drop leaves the key out.
	Drop Fate = "drop"
	// Look decides by the object itself; see Found, Version and, in place, InPlace.
	Look Fate = "look"
	// Change writes the changed object. Only an object that was looked at has this fate.
	Change Fate = "change"
)

// Names of rules. A node is noted before it is left out. In place, the object of a custom kind is looked
// at by the name of its rule, and Steps are Jobs of which the operator makes another one.
const (
	Nodes          = "nodes"
	Steps          = "steps"
	Versions       = "version"
	Infrastructure = "infrastructure"
)

// Rule gives a fate to some keys, with the reason.
type Rule struct {
	// Name is the rule's name in reports.
	Name string
	// Key is the name of one key, or ends in "/" and stands for all keys below it,
	// without Root.
	Key string
	// Starts is true if keys that go on after Key without a "/" belong to the rule, too.
	Starts bool
	Fate   Fate
	// InPlace is the fate in a restore in place: hosts, nodes and pods are still those of the site. Each
	// rule says it, since what a plan left in the backup acts there, too.
	InPlace Fate
	Why     string
}

// rules are asked in their order; the first that fits decides.
var rules = []Rule{
	{Name: Nodes, Key: "minions/", Fate: Drop, InPlace: Look, Why: "the hosts register themselves: their hardware, addresses and ranges may be others"},
	{Name: "node-leases", Key: "leases/kube-node-lease/", Fate: Drop, InPlace: Keep, Why: "a heartbeat of the past"},
	{Name: "leader-leases", Key: "leases/kube-system/", Fate: Drop, InPlace: Keep, Why: "its holder is gone, so nobody should wait for its end"},
	{Name: "operator-leases", Key: "leases/openshift-etcd/", Fate: Drop, InPlace: Keep, Why: "its holder is gone, so nobody should wait for its end"},
	{Name: "api-servers", Key: "masterleases/", Fate: Drop, InPlace: Keep, Why: "an address of an API server that is gone would be given to clients"},
	{Name: "api-endpoints", Key: "services/endpoints/default/kubernetes", Fate: Drop, InPlace: Keep, Why: "the API servers write it"},
	{Name: "api-slices", Key: "endpointslices/default/kubernetes", Fate: Drop, InPlace: Keep, Why: "the API servers write it"},
	{Name: "csi-nodes", Key: "csinodes/", Fate: Drop, InPlace: Keep, Why: "kubelets write it"},
	{Name: "attachments", Key: "volumeattachments/", Fate: Drop, InPlace: Keep, Why: "nothing is attached to a new host"},
	{Name: "certificate-requests", Key: "certificatesigningrequests/", Fate: Drop, InPlace: Keep, Why: "the host or person that asked is gone"},
	{Name: "events", Key: "events/", Fate: Drop, InPlace: Keep, Why: "it tells of hosts that are gone"},

	{Name: "pods", Key: "pods/", Fate: Look, InPlace: Look, Why: "its controller makes another one"},
	{Name: "cron-jobs", Key: "cronjobs/", Fate: Look, InPlace: Look, Why: "it would run for the time that was missed"},
	{Name: "volumes", Key: "persistentvolumes/", Fate: Look, InPlace: Look, Why: "its disk may hold data that are newer than the backup"},
	{Name: "validating-webhooks", Key: "validatingwebhookconfigurations/", Fate: Look, InPlace: Keep, Why: "it may refuse what its own pods need"},
	{Name: "mutating-webhooks", Key: "mutatingwebhookconfigurations/", Fate: Look, InPlace: Keep, Why: "it may refuse what its own pods need"},
	{Name: Versions, Key: "config.openshift.io/clusterversions/", Fate: Look, InPlace: Look, Why: "no upgrade goes on by itself"},

	{Name: Steps, Key: "jobs/openshift-etcd/", Fate: Drop, InPlace: Look, Why: "the hosts are set up anew"},
	{Name: "jobs", Key: "jobs/", Fate: Look, InPlace: Look, Why: "its pods are left out, and it would do again what it may have done after the backup"},
	{Name: "etcd", Key: "operator.openshift.io/etcds/", Fate: Drop, InPlace: Keep, Why: "the installation makes it; it says who runs etcd"},
	{Name: "etcd-pod", Key: "configmaps/openshift-etcd/external-etcd-pod", Fate: Drop, InPlace: Keep, Why: "the hosts are set up anew"},
	{Name: "pacemaker", Key: "etcd.openshift.io/pacemakerclusters/", Fate: Drop, InPlace: Keep, Why: "it tells of a cluster that is gone"},
	{Name: Infrastructure, Key: "config.openshift.io/infrastructures/", Fate: Drop, InPlace: Look, Why: "the installation makes it from the install configuration"},
	{Name: "operators", Key: "config.openshift.io/clusteroperators/", Fate: Drop, InPlace: Keep, Why: "the operator writes them"},
	{Name: "retired-guard", Key: "validatingadmissionpolicies/holdfast-retired-hosts", Fate: Look, InPlace: Keep, Why: "it keeps hosts out that were taken out, from the first moment on; it gets the names of the list"},
	{Name: "retired-guard-binding", Key: "validatingadmissionpolicybindings/holdfast-retired-hosts", Fate: Keep, InPlace: Keep, Why: "the guard acts by it"},
	{Name: "guards", Key: "validatingadmissionpolicies/holdfast-", Starts: true, Fate: Drop, InPlace: Keep, Why: "the installation makes them, and they would guard the topology of before"},
	{Name: "guard-bindings", Key: "validatingadmissionpolicybindings/holdfast-", Starts: true, Fate: Drop, InPlace: Keep, Why: "the installation makes them, and they would guard the topology of before"},
	{Name: "fencing", Key: "secrets/openshift-etcd/fencing-credentials-", Starts: true, Fate: Drop, InPlace: Keep, Why: "the accounts of BMCs come from the install configuration"},
	{Name: "trust", Key: "secrets/openshift-etcd/pacemaker-auth", Fate: Drop, InPlace: Keep, Why: "Corosync's key follows from it, and a former host that wakes up must have another one; the operator makes a new one"},
	{Name: "job-inputs", Key: "secrets/openshift-etcd/two-node-input-", Starts: true, Fate: Drop, InPlace: Keep, Why: "it holds accounts of former BMCs, for a Job that is gone"},
	{Name: "join-key", Key: "secrets/kube-system/holdfast-join-key", Fate: Drop, InPlace: Keep, Why: "each life has a join key of its own"},
	{Name: "authorities", Key: "secrets/kube-system/holdfast-authorities", Fate: Drop, InPlace: Keep, Why: "no rotation goes on by itself"},
	{Name: "bootstrap-tokens", Key: "secrets/kube-system/bootstrap-token-", Starts: true, Fate: Drop, InPlace: Keep, Why: "hosts that join get others"},
	{Name: "installation", Key: "configmaps/kube-system/bootstrap", Fate: Drop, InPlace: Keep, Why: "the installation tells how far it is"},
	{Name: "plan", Key: "configmaps/kube-system/holdfast-replace", Fate: Drop, InPlace: Drop, Why: "it is the lock of all plans for control planes: its plan is of hosts that are gone, and nobody would ever give it back"},
	{Name: "plan-accounts", Key: "secrets/kube-system/holdfast-two-control-planes", Fate: Drop, InPlace: Drop, Why: "it holds accounts of former BMCs, for a plan that is gone"},
	{Name: "incidents", Key: "configmaps/kube-system/holdfast-incidents-", Starts: true, Fate: Drop, InPlace: Keep, Why: "it tells of hosts that are gone, and an incident that was open would never end"},
	{Name: "upgrade", Key: "configmaps/kube-system/holdfast-upgrade", Fate: Drop, InPlace: Drop, Why: "no upgrade goes on by itself"},
	{Name: "keys", Key: "configmaps/kube-system/holdfast-encryption", Fate: Drop, InPlace: Keep, Why: "the installation writes which keys there are"},
	{Name: "retired", Key: "configmaps/kube-system/holdfast-retired", Fate: Look, InPlace: Keep, Why: "the certificate of a host that was taken out opens this life, too; the control planes of today are not out, and a name that was given again is out until a host joins by a token"},
	{Name: "administrators", Key: "clusterrolebindings/" + site.AdministratorBinding, Starts: true, Fate: Look, InPlace: Look, Why: "a person may have deleted it after the backup, and the kubeconfig has its rights again"},
	{Name: "cluster-info", Key: "configmaps/kube-public/cluster-info", Fate: Drop, InPlace: Keep, Why: "kubeadm writes it; its signatures are of tokens that are gone"},
}

// Rules returns the rules in their order.
func Rules() []Rule { return slices.Clone(rules) }

// Of returns the rule for a key. A key that no rule names is kept.
func Of(key string) Rule {
	name, inside := strings.CutPrefix(key, Root)
	if !inside {
		return Rule{Name: "foreign", Fate: Keep}
	}
	for _, r := range rules {
		if r.fits(name) {
			return r
		}
	}
	return Rule{Name: "kept", Fate: Keep}
}

func (r Rule) fits(name string) bool {
	if strings.HasSuffix(r.Key, "/") || r.Starts {
		return strings.HasPrefix(name, r.Key)
	}
	return name == r.Key
}
