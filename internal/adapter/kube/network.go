package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/state"
)

// FollowNodes calls changed with all nodes of the cluster, ordered by name, as
// Follow does. It keeps only the part of a node that a state.Node holds, and
// drops the rest as it comes, above all the list of images.
func FollowNodes(ctx context.Context, s *Servers, logf func(string, ...any), changed func([]state.Node)) error {
	return Follow(ctx, s, Kind[state.Node]{Path: "/api/v1/nodes", Read: readNode}, logf, changed)
}

// wireNode is the part of a node that is read.
type wireNode struct {
	Metadata struct {
		Name        string            `json:"name"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		Created     time.Time         `json:"creationTimestamp"`
	} `json:"metadata"`
	Spec struct {
		Unschedulable bool `json:"unschedulable"`
	} `json:"spec"`
	Status struct {
		Addresses  []corev1.NodeAddress   `json:"addresses"`
		Conditions []corev1.NodeCondition `json:"conditions"`
	} `json:"status"`
}

func readNode(object []byte) (state.Node, error) {
	var n wireNode
	if err := json.Unmarshal(object, &n); err != nil {
		return state.Node{}, err
	}
	m := n.Metadata
	return NodeOf(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.Name, Labels: m.Labels, Annotations: m.Annotations, CreationTimestamp: metav1.NewTime(m.Created)},
		Spec:       corev1.NodeSpec{Unschedulable: n.Spec.Unschedulable},
		Status:     corev1.NodeStatus{Addresses: n.Status.Addresses, Conditions: n.Status.Conditions},
	}), nil
}

// tunnelAnnotations are the annotations in which flannel stores the address
// from which a node sends the packets of pods: that of the default route, which
// may differ from the node's address.
var tunnelAnnotations = []string{"flannel.alpha.coreos.com/public-ip", "flannel.alpha.coreos.com/public-ipv6"}

func tunnel(annotations map[string]string) []netip.Addr {
	var out []netip.Addr
	for _, name := range tunnelAnnotations {
		if a, err := netip.ParseAddr(annotations[name]); err == nil {
			out = append(out, a.Unmap().WithZone(""))
		}
	}
	return out
}

// internal returns the internal addresses in their order; it leaves out invalid
// ones.
func internal(list []corev1.NodeAddress) []netip.Addr {
	var out []netip.Addr
	for _, a := range list {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		if addr, err := netip.ParseAddr(a.Address); err == nil {
			out = append(out, addr.Unmap().WithZone(""))
		}
	}
	return out
}

// Infrastructure is the part of the Infrastructure object's status that
// describes the cluster's network.
type Infrastructure struct {
	// BareMetal is true if the object's platform is bare metal.
	BareMetal bool
	// UserManaged is true if a load balancer of the site holds the VIPs.
	UserManaged          bool
	APIVIPs, IngressVIPs []netip.Addr
	MachineNetworks      []netip.Prefix
	// RouterIDs are zero if nobody asked for any.
	RouterIDs state.RouterIDs
	// SyncFamilies requires that the VIPs of one kind are always on one host.
	SyncFamilies bool
	// NameClients are additional networks that may ask the hosts' name servers.
	NameClients []netip.Prefix
	// Readdress is the announcement that the site moves, empty for none (docs/adr/0095).
	Readdress string
	// Readdressed says to which place a move has brought the objects of the cluster, empty if
	// nobody has written it.
	Readdressed string
	// DualStack is the announcement that the site gets a second address family, empty for none
	// (docs/adr/0104).
	DualStack string
}

// ReaddressAnnotation is the annotation of the Infrastructure object that announces a move of
// the site to other addresses, as JSON of decide/readdress.Plan.
const ReaddressAnnotation = state.AnnotationDomain + "readdress"

// ReaddressedAnnotation is the annotation of the Infrastructure object that says at which place of
// a move the objects of the cluster are, as JSON of decide/readdress.Settled.
const ReaddressedAnnotation = state.AnnotationDomain + "readdressed"

// DualStackAnnotation is the annotation of the Infrastructure object that announces a second
// address family of the site, as JSON of decide/dualstack.Plan.
const DualStackAnnotation = state.AnnotationDualStack

// RouterIDsAnnotation is the annotation of the Infrastructure object that asks
// for VRRP virtual router ids, "API,INGRESS". It is needed if another cluster
// on the same network uses the ids that follow from the cluster's name.
const RouterIDsAnnotation = state.AnnotationDomain + "vrrp-router-ids"

// SyncAnnotation is the annotation of the Infrastructure object that is "true"
// if the IPv4 and the IPv6 address of one kind must always be on the same host.
const SyncAnnotation = state.AnnotationDomain + "vrrp-sync-families"

// NameClientsAnnotation is the annotation of the Infrastructure object that
// names networks, besides the cluster's own, that may ask the hosts' name
// servers, as CIDRs with commas.
const NameClientsAnnotation = state.AnnotationDomain + "name-clients"

// Place returns the addresses of the site and the announced plans that change them, and nothing
// else of the Infrastructure object. It is empty if there is no such object.
func (c *Client) Place(ctx context.Context) (Infrastructure, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	data, err := raw(c.set.CoreV1().RESTClient().Get().AbsPath(infrastructures, "cluster").SetHeader("Accept", "application/json").Do(ctx))
	if apierrors.IsNotFound(err) {
		return Infrastructure{}, nil
	}
	var in wireInfrastructure
	if err == nil {
		err = json.Unmarshal(data, &in)
	}
	var out Infrastructure
	if err == nil {
		out, err = in.place()
	}
	if err != nil {
		return Infrastructure{}, fmt.Errorf("get Infrastructure cluster: %w", err)
	}
	return out, nil
}

const infrastructures = "/apis/config.openshift.io/v1/infrastructures"

// FollowInfrastructure calls changed with the Infrastructure object's settings,
// as Follow does, but not while there is no such object.
func FollowInfrastructure(ctx context.Context, s *Servers, logf func(string, ...any), changed func(Infrastructure)) error {
	kind := Kind[Infrastructure]{
		Path: infrastructures, Only: "cluster", Read: readInfrastructure,
	}
	return Follow(ctx, s, kind, logf, func(list []Infrastructure) {
		if len(list) == 1 {
			changed(list[0])
		}
	})
}

// wireInfrastructure is the part of the object that is read: the status, which
// holds the accepted values, while the spec holds the requested ones.
type wireInfrastructure struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Status struct {
		PlatformStatus struct {
			Type      string `json:"type"`
			BareMetal struct {
				API          []string `json:"apiServerInternalIPs"`
				Ingress      []string `json:"ingressIPs"`
				Networks     []string `json:"machineNetworks"`
				LoadBalancer struct {
					Type string `json:"type"`
				} `json:"loadBalancer"`
			} `json:"baremetal"`
		} `json:"platformStatus"`
	} `json:"status"`
}

// readInfrastructure returns an error if any of the addresses is invalid: half
// a list must not replace a complete one.
func readInfrastructure(object []byte) (Infrastructure, error) {
	var in wireInfrastructure
	if err := json.Unmarshal(object, &in); err != nil {
		return Infrastructure{}, err
	}
	out, err := in.place()
	if err != nil {
		return Infrastructure{}, err
	}
	platform := in.Status.PlatformStatus
	out.BareMetal, out.UserManaged = platform.Type == "BareMetal", platform.BareMetal.LoadBalancer.Type == "UserManaged"
	out.SyncFamilies = in.Metadata.Annotations[SyncAnnotation] == "true"
	if out.RouterIDs, err = readRouterIDs(in.Metadata.Annotations[RouterIDsAnnotation]); err != nil {
		return Infrastructure{}, fmt.Errorf("annotation %s: %w", RouterIDsAnnotation, err)
	}
	if out.NameClients, err = parseAll(listed(in.Metadata.Annotations[NameClientsAnnotation]), netip.ParsePrefix); err != nil {
		return Infrastructure{}, fmt.Errorf("annotation %s: %w", NameClientsAnnotation, err)
	}
	return out, nil
}

// place returns the addresses of the site and the announced plans that change them.
func (in *wireInfrastructure) place() (Infrastructure, error) {
	platform := in.Status.PlatformStatus
	set := in.Metadata.Annotations
	out := Infrastructure{Readdress: set[ReaddressAnnotation], Readdressed: set[ReaddressedAnnotation], DualStack: set[DualStackAnnotation]}
	var err error
	if out.APIVIPs, err = parseAll(platform.BareMetal.API, netip.ParseAddr); err != nil {
		return Infrastructure{}, fmt.Errorf("status.platformStatus.baremetal.apiServerInternalIPs: %w", err)
	}
	if out.IngressVIPs, err = parseAll(platform.BareMetal.Ingress, netip.ParseAddr); err != nil {
		return Infrastructure{}, fmt.Errorf("status.platformStatus.baremetal.ingressIPs: %w", err)
	}
	if out.MachineNetworks, err = parseAll(platform.BareMetal.Networks, netip.ParsePrefix); err != nil {
		return Infrastructure{}, fmt.Errorf("status.platformStatus.baremetal.machineNetworks: %w", err)
	}
	for _, list := range [][]netip.Addr{out.APIVIPs, out.IngressVIPs} {
		for i := range list {
			list[i] = list[i].Unmap().WithZone("")
		}
	}
	return out, nil
}

func readRouterIDs(text string) (state.RouterIDs, error) {
	if text == "" {
		return state.RouterIDs{}, nil
	}
	api, ingress, _ := strings.Cut(text, ",")
	first, err := strconv.ParseUint(strings.TrimSpace(api), 10, 8)
	second, err2 := strconv.ParseUint(strings.TrimSpace(ingress), 10, 8)
	if err != nil || err2 != nil || first == 0 || second == 0 || first == second {
		return state.RouterIDs{}, fmt.Errorf("%q is not two different numbers of 1 to 255, \"API,INGRESS\"", text)
	}
	return state.RouterIDs{API: uint8(first), Ingress: uint8(second)}, nil
}

// listed splits a text at commas and blanks.
func listed(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

func parseAll[T any](texts []string, parse func(string) (T, error)) ([]T, error) {
	var out []T
	for _, t := range texts {
		v, err := parse(t)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}
