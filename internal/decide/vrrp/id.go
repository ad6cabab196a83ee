package vrrp

import (
	"cmp"

	"github.com/holdfast/holdfast/internal/model/state"
)

// IDs are the virtual router ids of a cluster: those that its settings name,
// else those that follow from its name. They differ in any case.
func IDs(s state.NetworkSettings) state.RouterIDs {
	api, ingress := RouterIDs(s.Cluster)
	api, ingress = cmp.Or(s.RouterIDs.API, api), cmp.Or(s.RouterIDs.Ingress, ingress)
	if api == ingress && s.RouterIDs.Ingress != 0 && s.RouterIDs.API == 0 {
		api = next(api)
	} else if api == ingress {
		ingress = next(ingress)
	}
	return state.RouterIDs{API: api, Ingress: ingress}
}

// next is the id after one, 1 after 255.
func next(id uint8) uint8 { return max(id+1, 1) }

// RouterIDs returns the virtual router ids that follow from a cluster's name:
// a Fletcher-8 checksum, moved off zero and apart (B13). The vectors that other
// implementations published stay the same.
func RouterIDs(cluster string) (api, ingress uint8) {
	api, ingress = fletcher8(cluster+"-api")+1, fletcher8(cluster+"-ingress")+1
	if api == ingress {
		ingress++
	}
	return api, ingress
}

// fletcher8 is Fletcher's checksum with four-bit sums, modulo 15.
func fletcher8(s string) uint8 {
	var sum, sums uint16
	for _, b := range []byte(s) {
		sum = (sum + uint16(b)) % 15
		sums = (sums + sum) % 15
	}
	return uint8(sums<<4 | sum) //nolint:gosec // the lower eight bits
}
