package controlplane

import (
	"context"
	"time"

	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/agent/operatorkey"
)

// operatorKeyEvery is the pause between two checks of the operator's certificate
// for etcd, a twentieth of the shortest life that a site may choose.
const operatorKeyEvery = 30 * time.Second

// operatorKeyTask keeps the operator's pair, also on a host that an earlier
// release installed, and renews it in time. etcd has no part in that, so a
// cluster that was switched off for longer than the pair lasts has another one
// as soon as its agents run.
func (r *Agent) operatorKeyTask() loop.Task {
	keeper := operatorkey.New(r.Site.Config.CertificateLife(), r.Now)
	return loop.Task{Name: "operator certificate", Every: operatorKeyEvery, Limit: aRequest, NotYet: notSetUp, Step: func(context.Context) (out loop.Result, err error) {
		renewed, err := keeper.Keep()
		if renewed {
			out.Changed = "the operator has a new certificate for etcd"
		}
		return out, err
	}}
}
