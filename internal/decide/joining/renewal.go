package joining

import (
	"crypto/x509"
	"errors"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
)

// MaxExpired is the longest time since the end of a worker's certificate after
// which the worker still gets another one by itself. It bounds for how long a key
// on a disk that somebody threw away may open anything.
const MaxExpired = 5 * 365 * 24 * time.Hour

// The inaccuracies that a renewal allows for.
const (
	// untilRegistered is the longest time from the issue of a worker's first
	// certificate to the creation of its Node.
	untilRegistered = time.Hour
	// clockError is the error of a worker's clock while the worker ran.
	clockError = 10 * time.Minute
)

// ErrNoWorker is the answer to a certificate that this cluster did not issue to a
// kubelet. It tells a stranger nothing.
var ErrNoWorker = errors.New("the certificate shown is not one that this cluster issued to a worker")

// Expired is an expired certificate of a node. Whoever asks has proved that it
// has the key.
type Expired struct {
	Node          string
	Issued, Ended time.Time
}

// ReadExpired checks, without a look at the cluster, a certificate that a host
// showed and its request for another one. The certificate must have been valid
// for a kubelet until its end: only the end itself is forgiven.
func ReadExpired(authorities []*x509.Certificate, shown *x509.Certificate, request []byte, now time.Time) (Expired, error) {
	node, err := subjectNode(shown.Subject)
	if err != nil || shown.IsCA {
		return Expired{}, ErrNoWorker
	}
	roots := x509.NewCertPool()
	for _, a := range authorities {
		roots.AddCert(a)
	}
	chains, err := shown.Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: shown.NotAfter, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return Expired{}, ErrNoWorker
	}
	x := Expired{Node: node, Issued: shown.NotBefore, Ended: shown.NotAfter}
	if !slices.ContainsFunc(chains, func(chain []*x509.Certificate) bool { return now.Before(chain[len(chain)-1].NotAfter) }) {
		return x, refuse("the authority that issued the certificate of %s has expired: %s", node, anew(node))
	}
	if err := x.time(now); err != nil {
		return x, err
	}
	wanted, err := nodeOf(Request{PEM: request, Usages: ClientUsages})
	switch {
	case err != nil:
		return x, refuse("%s requested something other than a kubelet certificate: %s", node, err)
	case wanted != node:
		return x, refuse("%s requested the certificate of another node", node)
	}
	return x, nil
}

// ClientUsages lists what a client's certificate is for.
var ClientUsages = []string{"client auth", "digital signature"}

// time compares the certificate with the clock of this control plane.
func (x Expired) time(now time.Time) error {
	switch {
	case now.Before(x.Issued):
		return refuse("the clock of this control plane (%s) is earlier than the issue of the certificate of %s (%s): "+
			"set the clocks of the control planes (chronyc makestep)", stamp(now), x.Node, stamp(x.Issued))
	case !now.After(x.Ended):
		return refuse("the certificate of %s has not expired: it ends at %s, and the clock of this control plane says %s: "+
			"compare the clocks of both hosts (date -u), and set the wrong one (chronyc makestep)", x.Node, stamp(x.Ended), stamp(now))
	case now.After(x.Ended.Add(MaxExpired)):
		return refuse("the certificate of %s expired at %s, more than %d days ago: %s", x.Node, stamp(x.Ended), int(MaxExpired/(24*time.Hour)), anew(x.Node))
	}
	return nil
}

// Renew decides whether a worker gets another certificate in exchange for an
// expired one. out has the entries of hosts that were taken out, at least that of the
// worker. seen is when the worker last renewed its Lease, zero if it has none. The
// error is a Refusal.
//
// Kubernetes has no list of revoked certificates. These rules take its place: a host
// that was taken out gets none, nor one without a Node, a new Node of the same name does
// not bring those of the old one back, and a node that was alive after the end of
// this certificate has a newer one, so this one is a copy.
func Renew(s Site, x Expired, nodes []state.Node, out retired.List, seen, now time.Time) (Verdict, error) {
	if err := s.Name(state.RoleWorker, x.Node, controlPlanes(nodes)); err != nil {
		return Verdict{}, refuse("%s is no worker: a control plane renews its certificates itself (docs/runbook/leaf-certificates.md)", x.Node)
	}
	if h, listed := out.Of(x.Node); listed && h.Open() {
		return Verdict{}, refuse("%s was %s: it gets no certificate; wipe the host (holdfast-agent wipe)", x.Node, h)
	}
	i := slices.IndexFunc(nodes, func(n state.Node) bool { return n.Name == x.Node })
	if i < 0 {
		return Verdict{}, refuse("the cluster has no Node %s any more: if this host is yours, install it anew (docs/runbook/expired-worker.md)", x.Node)
	}
	switch made := nodes[i].Made(); {
	case made.After(x.Issued.Add(untilRegistered)):
		return Verdict{}, refuse("the certificate is older than the Node %s, which was created at %s: it belongs to an earlier host of that name: %s",
			x.Node, stamp(made), anew(x.Node))
	case seen.IsZero():
		return Verdict{}, refuse("the cluster does not know when %s was last alive, because its Lease is missing in kube-node-lease: %s", x.Node, anew(x.Node))
	case seen.After(now.Add(clockError)): // the clock of a worker was ahead: that tells of no newer certificate
		return Verdict{}, refuse("the Lease of %[1]s says that it was alive at %[2]s, and the clock of this control plane says %[3]s: if %[1]s has not run since %[4]s, write that into the Lease: "+
			"kubectl -n kube-node-lease patch lease %[1]s --type merge -p '{\"spec\":{\"renewTime\":\"%[5]s\"}}'",
			x.Node, stamp(seen), stamp(now), stamp(x.Ended), x.Ended.UTC().Format("2006-01-02T15:04:05.000000Z07:00"))
	case seen.After(x.Ended.Add(clockError)):
		return Verdict{}, refuse("%s was alive at %s, after this certificate expired (%s): so it has a newer one, and this is an old copy: %s",
			x.Node, stamp(seen), stamp(x.Ended), anew(x.Node))
	}
	return Verdict{Approve, "ExpiredCertificate", "requested with the key of the certificate of " + x.Node + ", which expired at " + stamp(x.Ended) +
		"; the worker was last alive at " + stamp(seen)}, nil
}

// anew tells a person how a worker that gets no certificate comes back.
func anew(node string) string {
	return "if this host is yours, switch it off, and install it anew by: holdfast host replace " + node + " --is-gone " + node + " --join-file " + node + ".ign (docs/runbook/expired-worker.md)"
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
