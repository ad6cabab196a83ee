package holders

import (
	"fmt"

	"github.com/holdfast/holdfast/internal/kube"
	"github.com/holdfast/holdfast/internal/state"
)

// Describe says what a claim means, and what to do about it.
func Describe(c state.VIPClaim) string {
	if c.RouterID != 0 {
		return fmt.Sprintf("%s, which is no host of this cluster, sends VRRP adverts about one of its virtual IPs, with its router id %d: if it is another cluster, "+
			"give one of them other virtual IPs, and other ids (annotation %s of the object infrastructures/cluster)", c.By, c.RouterID, kube.RouterIDsAnnotation)
	}
	return fmt.Sprintf("the machine %s, which is no host of this cluster, answers for the virtual IP %s: "+
		"find it and take the address from it (docs/runbook)", c.By, c.VIP)
}
