package vrrp

import (
	"cmp"

	"github.com/holdfast/holdfast/internal/model/state"
)

// IDs returns the virtual router ids of a cluster: those in its settings, else
// those that follow from its name. The two always differ.
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

// next returns the id after one; after 255 comes 1.
func next(id uint8) uint8 { return max(id+1, 1) }

// RouterIDs returns the virtual router ids that follow from a cluster's name: a
// Fletcher-8 checksum that is never zero, and never the same for both (B13). The
// results equal the vectors that other implementations published.
func RouterIDs(cluster string) (api, ingress uint8) {
	api, ingress = fletcher8(cluster+"-api")+1, fletcher8(cluster+"-ingress")+1
	if api == ingress {
		ingress++
	}
	return api, ingress
}

// fletcher8 computes Fletcher's checksum with four-bit sums, modulo 15.
func fletcher8(s string) uint8 {
	var sum, sums uint16
	for _, b := range []byte(s) {
		sum = (sum + uint16(b)) % 15
		sums = (sums + sum) % 15
	}
	return uint8(sums<<4 | sum) //nolint:gosec // the lower eight bits
}
