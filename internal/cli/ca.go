package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/cli/place"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	decide "github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/hold"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/flannel"
)

func newCA(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ca",
		Short: "Show or replace the authorities of a cluster",
		Long: `An authority signs what the parts of a cluster show to each other: certificates, and
tokens of service accounts. Its key lies on every control plane. Leaf certificates
are renewed by themselves; an authority is replaced only by this command.`,
	}
	cmd.AddCommand(newCAShow(streams), newCARotate(streams))
	return cmd
}

// caFlags holds the flags of both commands.
type caFlags struct {
	place  place.Flags
	output string
}

func (f *caFlags) register(cmd *cobra.Command) {
	command.OutputFlag(cmd, &f.output)
	f.place.DeclareKubeconfig(cmd)
	f.place.DeclareLab(cmd)
}

// client opens the API at the place that the flags name.
func (f *caFlags) client(ctx context.Context, mistakes ...error) (*kube.Client, error) {
	if err := f.place.Check(mistakes...); err != nil {
		return nil, err
	}
	access, err := f.place.OpenAPI(ctx)
	if err != nil {
		return nil, err
	}
	return access.Client()
}

// caCluster is the cluster as both commands read and change it.
type caCluster interface {
	Nodes(ctx context.Context) ([]state.Node, error)
	Secret(ctx context.Context, namespace, name string) (map[string][]byte, error)
	SwapSecretKey(ctx context.Context, namespace, name, key string, before, after []byte) error
	TokenSecrets(ctx context.Context) ([]kube.TokenSecret, error)
	BootstrapTokens(ctx context.Context) ([]joining.Token, error)
	ConfigMap(ctx context.Context, namespace, name string) (map[string]string, error)
	ConfigMapsNamed(ctx context.Context, name string) (map[string]map[string]string, error)
	Pods(ctx context.Context) ([]corev1.Pod, error)
	SwapConfigMapKey(ctx context.Context, namespace, name, key, before, after string) error
	PacemakerCluster(ctx context.Context) (*etcdv1.PacemakerCluster, error)
	NodeLastSeen(ctx context.Context, node string) (time.Time, error)
}

// The ConfigMap in which API servers publish authorities for servers that extend the
// API. They add what they trust and never take anything out.
const (
	extensionNamespace = "kube-system"
	extensionConfigMap = "extension-apiserver-authentication"
)

// extensionKey returns its key with the front proxy's CA, or with the Kubernetes CA.
func extensionKey(a decide.Authority) string {
	if a == decide.KubernetesCA {
		return "client-ca-file"
	}
	return "requestheader-client-ca-file"
}

// The ConfigMaps with the authority of the API: that of each namespace for pods, which
// the controller manager writes, and that for hosts that join by kubeadm alone, which
// is a kubeconfig that nobody else writes.
const (
	rootConfigMap = "kube-root-ca.crt"
	rootKey       = "ca.crt"
	infoNamespace = "kube-public"
	infoConfigMap = "cluster-info"
	infoKey       = "kubeconfig"
)

// caFacts is what was read about one authority.
type caFacts struct {
	decide.Seen
	// wish and published are the texts as they were read.
	wish      []byte
	published string
	// info is the kubeconfig of cluster-info, and root what pods of kube-system trust.
	info, root string
}

// readCA reads all that is known about an authority.
func readCA(ctx context.Context, c caCluster, a decide.Authority, now time.Time) (caFacts, error) {
	out := caFacts{Seen: decide.Seen{Authority: a, Now: now}}
	wishes, err := c.Secret(ctx, decide.WishNamespace, decide.WishName)
	if err != nil {
		return out, err
	}
	out.wish = wishes[string(a)]
	if out.Wish, err = decide.WishOf(a, out.wish); err != nil {
		return out, err
	}
	nodes, err := c.Nodes(ctx)
	if err == nil {
		err = out.readWork(ctx, c, nodes)
	}
	if err != nil {
		return out, err
	}
	out.Hosts, out.Absent = decide.HostsOf(nodes, a)
	if err := out.readClock(ctx, c); err != nil {
		return out, err
	}
	switch a {
	case decide.FrontProxyCA:
		err = out.readPublished(ctx, c)
	case decide.ServiceAccountKey:
		err = out.readTokens(ctx, c)
	case decide.EtcdCA:
		err = out.readPair(ctx, c)
	case decide.KubernetesCA:
		out.Followers = decide.FollowersOf(nodes, a)
		err = errors.Join(out.readPublished(ctx, c), out.readRoots(ctx, c), out.readNetwork(ctx, c), out.readPair(ctx, c))
	}
	return out, err
}

// readWork reads what other work on hosts a rotation waits for: an upgrade, a plan for the
// control planes, and hosts that are being installed. These got the authorities of that
// time once, and have no Node until they are complete.
func (f *caFacts) readWork(ctx context.Context, c caCluster, nodes []state.Node) error {
	record, err := c.ConfigMap(ctx, annotation.RecordNamespace, annotation.RecordName)
	if err != nil {
		return err
	}
	held := hold.Of(state.Known(record[annotation.RecordKey]), nil)
	others, err := othersAtWork(ctx, c, f.Authority, nodes, f.Now)
	f.Upgrade, f.AtWork = cmp.Or(held.Rewrite, others), cmp.Or(held.Away, others)
	return err
}

// workOnHosts is what says which hosts come and go.
type workOnHosts interface {
	ConfigMap(ctx context.Context, namespace, name string) (map[string]string, error)
	BootstrapTokens(ctx context.Context) ([]joining.Token, error)
}

// othersAtWork says which plan for the control planes is in force, or which host is being installed
// with what the others have now; empty for none.
func othersAtWork(ctx context.Context, c workOnHosts, a decide.Authority, nodes []state.Node, now time.Time) (string, error) {
	lock, err := c.ConfigMap(ctx, replace.LockNamespace, replace.LockName)
	if err != nil {
		return "", err
	}
	tokens, err := c.BootstrapTokens(ctx)
	var let []decide.Newcomer
	for _, t := range tokens {
		let = append(let, decide.Newcomer{Name: t.Host, Control: t.Role == state.RoleMaster, Token: t.ID, Ends: t.Expires})
	}
	return cmp.Or(replace.InForce(lock), decide.Joining(a, let, nodes, now)), err
}

// readClock compares this machine's clock with those of control planes.
func (f *caFacts) readClock(ctx context.Context, c caCluster) error {
	seen := map[string]time.Time{}
	for _, h := range f.Hosts {
		if !h.Ready || h.Joins {
			continue
		}
		at, err := c.NodeLastSeen(ctx, h.Name)
		if err != nil {
			return err
		}
		if !at.IsZero() {
			seen[h.Name] = at
		}
	}
	f.Clock = decide.ClockOf(f.Now, seen)
	return nil
}

// readNetwork names the pods of the pod network that started before the new authority
// was there for them. Its library reads that once.
func (f *caFacts) readNetwork(ctx context.Context, c caCluster) error {
	if f.Wish.Phase != decide.Trust || f.Wish.Trusted.IsZero() {
		return nil
	}
	f.Restart = "kubectl -n " + flannel.Namespace + " rollout restart daemonset " + flannel.DaemonSet
	pods, err := c.Pods(ctx)
	for i := range pods {
		if p := &pods[i]; p.Namespace == flannel.Namespace && p.CreationTimestamp.Time.Before(f.Wish.Trusted) {
			f.Former = append(f.Former, p.Namespace+"/"+p.Name)
		}
	}
	slices.Sort(f.Former)
	return err
}

// readRoots reads by what pods, and hosts that join by kubeadm, know the API.
func (f *caFacts) readRoots(ctx context.Context, c caCluster) error {
	maps, err := c.ConfigMapsNamed(ctx, rootConfigMap)
	if err != nil {
		return err
	}
	texts := map[string][]decide.ID{}
	for namespace, data := range maps {
		texts[namespace+"/"+rootConfigMap] = idsIn(data[rootKey])
	}
	f.root, f.Stale = maps[extensionNamespace][rootKey], decide.Stale(texts, f.Hosts)
	info, err := c.ConfigMap(ctx, infoNamespace, infoConfigMap)
	if err != nil || info[infoKey] == "" {
		return err
	}
	f.info = info[infoKey]
	bundle, err := kube.Authorities([]byte(f.info))
	if err != nil {
		return fmt.Errorf("ConfigMap %s/%s: %w", infoNamespace, infoConfigMap, err)
	}
	f.StaleInfo = len(decide.Stale(map[string][]decide.ID{infoConfigMap: idsIn(string(bundle))}, f.Hosts)) > 0
	return nil
}

// idsIn returns the authorities in a text, none if it cannot be read: then somebody
// has changed it, and it is not what the control planes trust.
func idsIn(text string) []decide.ID {
	publics, err := keys.Publics(text)
	if err != nil {
		return nil
	}
	var out []decide.ID
	for _, p := range publics {
		out = append(out, decide.ID(p.ID))
	}
	return out
}

// readPair reads of two control planes whether etcd could do without either.
func (f *caFacts) readPair(ctx context.Context, c caCluster) error {
	if len(f.Hosts) != 2 {
		return nil
	}
	object, err := c.PacemakerCluster(ctx)
	if err != nil {
		return err
	}
	var spares map[string]rollout.Spare
	if object != nil {
		spares = rollout.PairSpares(object.Status, f.Now)
	}
	f.Etcd = decide.EtcdSpares(f.Hosts, spares)
	return nil
}

func (f *caFacts) readPublished(ctx context.Context, c caCluster) error {
	data, err := c.ConfigMap(ctx, extensionNamespace, extensionConfigMap)
	if err != nil {
		return err
	}
	f.published, f.Published = data[extensionKey(f.Authority)], []decide.ID{}
	if f.published == "" {
		return nil
	}
	publics, err := keys.Publics(f.published)
	if err != nil {
		return fmt.Errorf("ConfigMap %s/%s: %s: %w", extensionNamespace, extensionConfigMap, extensionKey(f.Authority), err)
	}
	for _, p := range publics {
		f.Published = append(f.Published, decide.ID(p.ID))
	}
	return nil
}

// readTokens names the Secrets with tokens of another key than the new one, once all
// control planes sign with that.
func (f *caFacts) readTokens(ctx context.Context, c caCluster) error {
	if f.Wish.Phase != decide.Sign || f.Wish.Signed.IsZero() || len(f.Hosts) == 0 || f.Hosts[0].Report == nil {
		return nil
	}
	secrets, err := c.TokenSecrets(ctx)
	for _, s := range secrets {
		if s.Key != string(f.Hosts[0].Report.New) {
			f.Tokens = append(f.Tokens, s.Namespace+"/"+s.Name)
		}
	}
	slices.Sort(f.Tokens)
	return err
}

// caReport is the state of one authority.
type caReport struct {
	Authority decide.Authority `json:"authority"`
	// Replaceable is false for an authority that cannot be replaced on this site.
	Replaceable bool         `json:"replaceable"`
	Phase       decide.Phase `json:"phase,omitempty"`
	Hosts       []caHost     `json:"hosts"`
	Next        decide.Kind  `json:"next,omitempty"`
	Why         string       `json:"why"`
}

type caHost struct {
	Name   string      `json:"name"`
	Ready  bool        `json:"ready"`
	Signs  decide.ID   `json:"signs,omitempty"`
	Trusts []decide.ID `json:"trusts"`
	Ends   time.Time   `json:"ends,omitzero"`
}

func reportOfCA(f caFacts) caReport {
	out := caReport{Authority: f.Authority, Replaceable: f.Unable() == "", Phase: f.Wish.Phase, Hosts: []caHost{}}
	for _, h := range slices.Concat(f.Hosts, f.Followers) {
		own := caHost{Name: h.Name, Ready: h.Ready, Trusts: []decide.ID{}}
		if r := h.Report; r != nil {
			own.Signs, own.Ends = r.Signs, r.Ends
			own.Trusts = append(own.Trusts, r.Trusts...)
		}
		out.Hosts = append(out.Hosts, own)
	}
	step := decide.Next(f.Seen, false)
	out.Next, out.Why = step.Kind, step.Why
	if !out.Replaceable && !f.Wish.Running() {
		out.Next, out.Why = "", "cannot be replaced on this site: "+f.Unable()
	}
	if f.Wish.Running() && step.Kind != decide.Due {
		out.Why += fmt.Sprintf("; to continue: holdfast ca rotate %s", f.Authority)
	}
	return out
}

func printCA(w io.Writer, output string, reports []caReport) error {
	if output == "json" {
		return command.PrintJSON(w, reports)
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "AUTHORITY\tHOST\tSIGNS\tTRUSTS\tENDS")
	for _, r := range reports {
		for _, h := range r.Hosts {
			ends := "-"
			if !h.Ends.IsZero() {
				ends = h.Ends.Format(time.DateOnly)
			}
			var trusts []string
			for _, id := range h.Trusts {
				trusts = append(trusts, id.Short())
			}
			_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", r.Authority, h.Name, orDash(h.Signs.Short()), orDash(strings.Join(trusts, ",")), ends)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range reports {
		_, _ = fmt.Fprintf(w, "%s: %s\n", r.Authority, r.Why)
	}
	return nil
}

func newCAShow(streams Streams) *cobra.Command {
	var f caFlags
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the authorities of a cluster, when they end, and where a rotation stands",
		Long: `Shows for each control plane by which authority it signs, which ones it trusts, and
when the certificate of the one that signs ends. An authority is named by the
beginning of the hash of its public key. During a rotation two are trusted; the last
lines say what it waits for and what to type.

Exit codes: 0 all have the same authority and no other one; 3 a rotation is in progress
or due, a host is behind or does not report; 1 it failed; 2 wrong usage.`,
		Example: `  holdfast ca show
  holdfast ca show -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.client(cmd.Context())
			if err != nil {
				return err
			}
			return showCA(cmd.Context(), c, streams.Out, f.output, time.Now())
		},
	}
	f.register(cmd)
	return cmd
}

func showCA(ctx context.Context, c caCluster, out io.Writer, output string, now time.Time) error {
	var reports []caReport
	var behind []string
	for _, a := range decide.Authorities() {
		facts, err := readCA(ctx, c, a, now)
		if err != nil && !errors.Is(err, decide.ErrWish) {
			return err
		}
		r := caReport{Authority: a, Replaceable: true, Hosts: []caHost{}}
		if err != nil { // nobody knows how far that one is; the others are shown
			r.Why = err.Error()
		} else {
			r = reportOfCA(facts)
		}
		reports = append(reports, r)
		if r.Replaceable && r.Next != decide.Settled {
			behind = append(behind, string(a))
		}
	}
	if err := printCA(out, output, reports); err != nil {
		return err
	}
	if len(behind) > 0 {
		return coded(command.ExitAttention, "not settled: %s", strings.Join(behind, ", "))
	}
	return nil
}
