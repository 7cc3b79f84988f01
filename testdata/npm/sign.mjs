// Signs webhooks with the packages of the providers:
//
//	node sign.mjs SECRET ID BODY
//
// It prints a JSON object with the headers that each preset of agent_events expects.

import { sign } from '@octokit/webhooks-methods';
import { Webhook } from 'standardwebhooks';
import Stripe from 'stripe';

const [secret, id, body] = process.argv.slice(2);
const now = new Date();
const seconds = Math.floor(now / 1000);

console.log(JSON.stringify({
	standard: {
		'webhook-id': id,
		'webhook-timestamp': String(seconds),
		'webhook-signature': new Webhook(Buffer.from(secret).toString('base64')).sign(id, now, body),
	},
	stripe: { 'Stripe-Signature': Stripe.webhooks.generateTestHeaderString({ payload: body, secret, timestamp: seconds }) },
	github: { 'X-GitHub-Delivery': id, 'X-GitHub-Event': 'invoice', 'X-Hub-Signature-256': await sign(secret, body) },
}));
