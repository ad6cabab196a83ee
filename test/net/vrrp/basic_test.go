package vrrp

import (
	"testing"
)

func TestThreeHostsHoldEachVIPOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	r.start(vip4, vip6)
	r.oneHolder(vip4, vip6)
}
