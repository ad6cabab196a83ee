package kube

import (
	"crypto/sha256"
	"os"
	"sync"
)

// lastClients are the clients of this process. client-go closes a connection once no client uses it
// any more (since 0.36), so a loop that makes a client for each look would begin each look
// with a handshake, whose signatures cost both ends more than the requests.
var lastClients = clients{of: map[Access]keptClient{}}

// clients has the last client of each access. It grows by the places that the program asks
// with, not with time.
type clients struct {
	mu sync.Mutex
	of map[Access]keptClient
}

// keptClient is a client with the hash of the kubeconfig that it was made of.
type keptClient struct {
	*Client
	from [sha256.Size]byte
}

// get returns the client of an access, which is made anew if the kubeconfig has changed since.
// A file that cannot be read is left to open, which knows how to say so.
func (k *clients) get(a Access, open func() (*Client, error)) (*Client, error) {
	text, err := os.ReadFile(a.Kubeconfig)
	if err != nil {
		return open()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	from := sha256.Sum256(text)
	if c, there := k.of[a]; there && c.from == from {
		return c.Client, nil
	}
	made, err := open()
	if err != nil {
		return nil, err
	}
	k.of[a] = keptClient{made, from}
	return made, nil
}
