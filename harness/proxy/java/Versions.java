package fencepost.proxy;

import java.nio.ByteBuffer;
import java.util.Set;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.ApiVersionsResponseData;

/**
 * Versions that a client and a broker may agree on where addresses in answers are replaced: none that cannot be read, for by an address
 * in it the client would reach the broker beside the proxy. A client that is newer than Kafka's release here is answered as by a
 * broker of that release.
 */
final class Versions {
    private static final short UNSUPPORTED = 35;
    private volatile ByteBuffer passed = ByteBuffer.allocate(0); // the answer that was last found to need no change, without its head

    /** The answer to a request for versions that is newer than what can be read (KIP-511); null for all others. */
    static ByteBuffer refused(Message request) {
        if (request.type != ApiMessageType.API_VERSIONS || request.bodyAt >= 0) {
            return null;
        }
        ByteBuffer answer = ByteBuffer.allocate(20).putInt(16).putInt(request.correlation).putShort(UNSUPPORTED).putInt(1);
        answer.putShort(request.key).putShort(request.type.lowestSupportedVersion());
        return answer.putShort(Codec.newest(request.type)).flip();
    }

    /** Lowers the highest versions that an answer offers of some APIs to those that can be read. */
    void lower(Message answer, Set<String> apis) {
        ByteBuffer content = answer.frame.duplicate().position(8);
        if (content.equals(passed)) {
            return;
        }
        if (!(answer.body() instanceof ApiVersionsResponseData body)) {
            return;
        }
        boolean changed = false;
        for (ApiVersionsResponseData.ApiVersion range : body.apiKeys()) {
            ApiMessageType type = Codec.type(range.apiKey());
            if (type != null && apis.contains(type.name) && range.maxVersion() > Codec.newest(type)) {
                range.setMaxVersion((short) Math.max(range.minVersion(), Codec.newest(type)));
                changed = true;
            }
        }
        if (changed) {
            answer.replace(body);
        } else {
            passed = ByteBuffer.allocate(content.remaining()).put(content).flip();
        }
    }
}
