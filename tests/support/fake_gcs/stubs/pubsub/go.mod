module cloud.google.com/go/pubsub/v2

go 1.21
