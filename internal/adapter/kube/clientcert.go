package kube

import (
	"time"

	"k8s.io/client-go/transport"
)

// followEvery is the time after which client-go looks again at the file of a client's
// certificate, to close connections that began with a former one.
const followEvery = 5 * time.Minute

// FollowCertificates makes this process leave connections that began with a client's certificate
// that was replaced, before that one ends. An API server refuses each request on a connection
// whose certificate has ended, and of a life of ten minutes a third, less than followEvery, is
// left when it is renewed. It affects connections that are made afterwards.
func FollowCertificates(life time.Duration) {
	transport.CertCallbackRefreshDuration = followPause(life)
}

func followPause(life time.Duration) time.Duration {
	if life <= 0 {
		return followEvery
	}
	return min(followEvery, life/20)
}
